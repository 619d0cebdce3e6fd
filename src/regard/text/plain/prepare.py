"""The preparation of texts alone: duplicates are left out, and long texts are cut into blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from regard.config import FixedTokenizerConfig, TextDataConfig, TokenizerConfig
from regard.text.files.report import BEYOND_MAX_TEXTS, ReadingReport
from regard.text.mapped import Rows
from regard.text.plain.encoded import TextCorpus, cut_blocks
from regard.text.plain.readers import WHAT, TextChunk, read_texts
from regard.text.plain.report import REPEATED, TextReport
from regard.text.preparation import EncodedRows, Part, Selection, prepare_data, read_json, select_rows
from regard.text.single import SingleTextSchema
from regard.text.split import Indices
from regard.text.spool import Spool, Texts, spool_texts
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TextData:
    """Texts, ready for training."""

    train: TextCorpus
    dev: TextCorpus
    """May be empty."""
    tokenizer: Tokenizer
    tokenizer_config: FixedTokenizerConfig
    """The settings of the tokenizer, with a fixed kind in place of `auto`."""
    report: TextReport
    fingerprint: str
    """Hash of the files' bytes."""


def prepare_texts(
    data: TextDataConfig,
    tokenizer: TokenizerConfig,
    *,
    seed: int,
    progress: bool = True,
    learned: Tokenizer | None = None,
) -> TextData:
    """Make encoded corpora and a tokenizer from text files, or load them from the cache.

    Args:
        data: The files, how to read them, and which texts to use.
        tokenizer: How texts become symbols. The tokenizer is learned from the training texts only.
        seed: Decides which texts are held out.
        progress: If True, show progress bars on standard error.
        learned: The tokenizer of a model that training starts from, which is used instead of a new one.

    Returns:
        The corpora, memory-mapped from the cache; the same files and settings give the same bytes.

    Raises:
        DataError: If a file cannot be read or has no usable text, or the cache cannot be written.
        ConfigError: If the tokenizer needs a package that is not installed.
    """
    return prepare_data(_PlainSchema(data, tokenizer, learned), seed=seed, progress=progress)


class _PlainSchema(SingleTextSchema[TextChunk, Spool, TextData]):
    """Texts without a translation or a label."""

    content = WHAT
    example = "a text file"

    def __init__(self, data: TextDataConfig, tokenizer: TokenizerConfig, learned: Tokenizer | None) -> None:
        super().__init__(data, tokenizer, learned)
        self.data = data

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[TextChunk]:
        """Read texts."""
        return read_texts(paths, self.data, report)

    def spool(self, chunks: Iterator[TextChunk], path: Path) -> Spool:
        """Write the texts to a file."""
        return spool_texts(chunks, self.columns, path)

    def select(self, spool: Spool, report: ReadingReport, seed: int) -> Selection[Spool]:
        """Drop duplicates, and hold out texts."""
        repeated = REPEATED if self.data.drop_repeats else ""
        size, most = self.dev_size, self.data.max_texts
        return select_rows(spool, report, repeated=repeated, beyond=BEYOND_MAX_TEXTS, dev_size=size, max_rows=most, seed=seed)

    def arrow_schema(self, selection: Selection[Spool]) -> pa.Schema:
        """Return the columns of a `TextCorpus`."""
        return TextCorpus.schema

    def encode(self, part: Part[Spool], positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Cut long texts into blocks."""
        ((ids, offsets),) = encoded
        blocks, _ = cut_blocks(ids, offsets, self.data.max_tokens)
        # The end symbol is predicted too, so a text of `max_tokens` tokens needs a second block.
        num_long = int((np.diff(offsets) >= self.data.max_tokens).sum())
        return EncodedRows([blocks], [], [ids], [len(ids) + len(positions)], num_long)

    def report(
        self, selection: Selection[Spool], train: Part[Spool], dev: Part[Spool], tokenizers: Sequence[Tokenizer]
    ) -> TextReport:
        """Return the report, with a note on texts in blocks."""
        num_long, longest = train.num_long + dev.num_long, self.data.max_tokens
        return TextReport(
            train=train.report,
            dev=dev.report if self.data.dev else None,
            train_texts=len(train),
            dev_texts=len(dev),
            vocabulary_size=tokenizers[0].size,
            train_tokens=train.tokens[0],
            dev_tokens=dev.tokens[0],
            overlap=self.find_overlap(train, dev),
            notes=[f"texts cut into blocks of {longest:,} tokens (data.max_tokens): {num_long:,}"] if num_long else [],
        )

    def load(self, folder: Path, tokenizers: Sequence[Tokenizer], fingerprint: str) -> TextData:
        """Load the corpora and the report."""
        return TextData(
            train=TextCorpus(folder / "train.arrow"),
            dev=TextCorpus(folder / "dev.arrow"),
            tokenizer=tokenizers[0],
            tokenizer_config=self.tokenizers[0],
            report=TextReport.from_dict(read_json(folder / "report.json")),
            fingerprint=fingerprint,
        )
