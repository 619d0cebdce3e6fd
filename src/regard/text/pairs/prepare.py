"""The preparation of sentence pairs: both sides are tokenised, duplicates and pairs with too many tokens are left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.config import DataConfig, TokenizersConfig
from regard.errors import DataError
from regard.text.corpora import EncodedCorpus
from regard.text.files.report import ReadingReport
from regard.text.mapped import Ids, Offsets, Rows
from regard.text.pairs.readers import PairChunk, read_pairs
from regard.text.preparation import DataSchema, EncodedRows, Part, Selection, prepare_data, read_json, select_rows
from regard.text.report import BEHIND_MAX_PAIRS, REPEAT, TOO_MANY_TOKENS, Overlap, PairReport
from regard.text.split import Indices, hash_pairs
from regard.text.spool import Spool, Texts, spool_texts
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizers


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """Sentence pairs, ready for training."""

    train: EncodedCorpus
    dev: EncodedCorpus
    """Pairs to validate on; may be empty."""
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    """The same object as `source_tokenizer` if both sides share a tokenizer."""
    tokenizers: TokenizersConfig
    """The settings of the tokenizers, with a fixed kind instead of `auto`."""
    report: PairReport
    fingerprint: str
    """Hash of the files' bytes."""


def prepare(
    data: DataConfig,
    tokenizers: TokenizersConfig,
    *,
    seed: int,
    progress: bool = True,
    learned: tuple[Tokenizer, Tokenizer] | None = None,
) -> PreparedData:
    """Make encoded corpora and tokenizers from files of pairs, or load them from the cache.

    Args:
        data: The files, how to read them, and which pairs to use.
        tokenizers: Settings of the tokenizers, which are learned from the training pairs only.
        seed: Seed for choosing the held-out pairs.
        progress: If True, show progress bars on standard error.
        learned: The tokenizers of a model that training starts from, which are used instead of new ones.

    Returns:
        The corpora, memory-mapped from the cache, with the tokenizers and the report. The same files and settings give the
        same bytes.

    Raises:
        DataError: If a file cannot be read or has no usable pair, or the cache cannot be written.
        ConfigError: If the settings of the tokenizers contradict each other, need a package that is not installed or a language
            that spaCy does not have, or have a limit that is too small.
    """
    return prepare_data(_PairSchema(data, tokenizers, learned), seed=seed, progress=progress)


class _PairSchema(DataSchema[PairChunk, Spool, PreparedData]):
    """Pairs of a source and a target."""

    content = "sentence pairs"
    example = "one file of pairs or two parallel files"
    columns = ("source", "target")

    def __init__(self, data: DataConfig, tokenizers: TokenizersConfig, learned: tuple[Tokenizer, Tokenizer] | None) -> None:
        super().__init__(data, (tokenizers.source, tokenizers.target), learned, joint=tokenizers.joint)
        self.data = data

    @property
    def config(self) -> TokenizersConfig:
        """The settings of both tokenizers, with fixed kinds."""
        source, target = self.tokenizers
        return TokenizersConfig(source=source, target=target, joint=self.joint)

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[PairChunk]:
        """Read sentence pairs."""
        return read_pairs(paths, self.data, report)

    def spool(self, chunks: Iterator[PairChunk], path: Path) -> Spool:
        """Write the pairs to a file."""
        return spool_texts(chunks, self.columns, path)

    def select(self, spool: Spool, report: ReadingReport, seed: int) -> Selection[Spool]:
        """Drop duplicates, and hold out pairs that share neither side with training."""
        repeated = REPEAT if self.data.drop_repeats else ""
        size, most = self.dev_size, self.data.max_pairs
        return select_rows(spool, report, repeated=repeated, beyond=BEHIND_MAX_PAIRS, dev_size=size, max_rows=most, seed=seed)

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizers of both sides."""
        return build_tokenizers(((chunk[0], chunk[1]) for chunk in texts), self.config, self.data, progress=progress)

    def arrow_schema(self, selection: Selection[Spool]) -> pa.Schema:
        """Return the columns of an `EncodedCorpus`."""
        return EncodedCorpus.schema

    def encode(self, part: Part[Spool], positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Leave out pairs with too many tokens on either side."""
        fits = np.stack([np.diff(offsets) for _, offsets in encoded]).max(axis=0) <= self.data.max_tokens
        if not fits.all():
            part.report.withdraw(TOO_MANY_TOKENS, part.spool.lines[positions[~fits]])
            encoded = [_keep(ids, offsets, fits) for ids, offsets in encoded]
            texts = tuple([text for text, fit in zip(column, fits.tolist(), strict=True) if fit] for column in texts)
        symbols = [ids for ids, _ in encoded]
        tokens = [len(ids) + int(fits.sum()) for ids in symbols]
        return EncodedRows(encoded, texts, symbols, tokens, int((~fits).sum()))

    def report(
        self, selection: Selection[Spool], train: Part[Spool], dev: Part[Spool], tokenizers: Sequence[Tokenizer]
    ) -> PairReport:
        """Return the report.

        Raises:
            DataError: If all pairs have too many tokens.
        """
        num_train = len(train) - train.num_long
        if not num_train:
            raise DataError(
                f"no pair is left to train on; is data.max_tokens ({self.data.max_tokens}) too low? The report:\n"
                f"  {train.report.render()}"
            )
        source, target = tokenizers
        return PairReport(
            train=train.report,
            dev=dev.report if self.data.dev else None,
            train_pairs=num_train,
            dev_pairs=len(dev) - dev.num_long,
            source_size=source.size,
            target_size=target.size,
            joint=source is target,
            train_tokens=(train.tokens[0], train.tokens[1]),
            overlap=_find_overlap(train, dev.spool) if self.data.dev else None,
        )

    def load(self, folder: Path, tokenizers: Sequence[Tokenizer], fingerprint: str) -> PreparedData:
        """Load the corpora and the report."""
        return PreparedData(
            train=EncodedCorpus(folder / "train.arrow"),
            dev=EncodedCorpus(folder / "dev.arrow"),
            source_tokenizer=tokenizers[0],
            target_tokenizer=tokenizers[1],
            tokenizers=self.config,
            report=PairReport.from_dict(read_json(folder / "report.json")),
            fingerprint=fingerprint,
        )


def _find_overlap(train: Part[Spool], dev: Spool) -> Overlap:
    source, target = (hashes[train.chosen] for hashes in train.spool.hashes)
    pairs = np.isin(hash_pairs(*dev.hashes), hash_pairs(source, target))
    return Overlap(
        pairs=int(pairs.sum()),
        sources=int(np.isin(dev.hashes[0], source).sum()),
        targets=int(np.isin(dev.hashes[1], target).sum()),
    )


def _keep(ids: Ids, offsets: Offsets, fits: npt.NDArray[np.bool_]) -> Rows:
    """Return the rows for which `fits` is True, in the same flat form."""
    lengths = np.diff(offsets)
    return ids[np.repeat(fits, lengths)], np.r_[0, np.cumsum(lengths[fits])]
