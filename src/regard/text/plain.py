"""Plain texts for language models: read text files, drop duplicates, and split long texts into blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from regard.config import TextDataConfig, TokenizerConfig
from regard.errors import DataError
from regard.text.corpora import TextCorpus, cut_blocks
from regard.text.files.formats import ENDINGS, detect_table, ending
from regard.text.files.opening import OVER_LONG_LINE, check_file, line_blocks, show_encoding
from regard.text.files.report import BEYOND_MAX_TEXTS, EMPTY_LINE, NOT_UNICODE, NUL, OVER_LONG, ReadingReport, SkipLimit
from regard.text.files.strings import is_unicode, normalise, quoted
from regard.text.mapped import Rows
from regard.text.preparation import EncodedRows, Part, Selection, prepare_data, select_rows
from regard.text.report import REPEATED, TextReport
from regard.text.single import SingleTextData, SingleTextSchema
from regard.text.split import Indices
from regard.text.spool import Spool, Texts, spool_texts
from regard.text.symbols import show_space
from regard.text.tokenizers.tokenizer import Tokenizer

WHAT = "text"
_LONGEST_PARAGRAPH = 1 << 20
"""Number of characters after which a paragraph is split at the end of the line, so that a file without empty lines cannot fill
the memory.
"""


@dataclass(frozen=True)
class TextChunk:
    """Texts in the file's order. The fields are lists of equal length."""

    text: list[str]
    line: list[int]
    """Number of the first line of each text in its file, from 1."""

    @property
    def columns(self) -> tuple[list[str]]:
        """The texts, as the only column."""
        return (self.text,)


def read_texts(paths: Sequence[str | Path], data: TextDataConfig, report: ReadingReport) -> Iterator[TextChunk]:
    """Read texts, chunk by chunk, so that memory does not grow with the file.

    Texts are stripped and converted to the Unicode form of `data.normalization`, and not changed otherwise. If `data.unit` is
    `paragraph`, the stripped lines of a paragraph are joined with spaces. If it is `block`, symbols replace all white space
    that tokenizers would drop (`symbols.show_space`).

    Args:
        paths: Text files, which are read one after another.
        data: Settings, of which `unit`, `encoding`, `allow_skipped` and `normalization` are used.
        report: Report, which is filled while reading: every text is either kept or skipped with a reason.

    Raises:
        DataError: If a file is missing, empty, damaged or a Parquet file; if, at the end of a file, the share of its unusable
            texts is larger than `data.allow_skipped`; or if there is no usable text in any file. The message names the file.
    """
    files = [check_file(path, WHAT) for path in paths]
    if packed := next((file for file in files if detect_table(file, data.encoding) == "parquet"), None):
        raise DataError(f"{packed}: is a Parquet file, expected text; write its texts to a text file, one text per line")
    report.files, report.form, report.kind = [str(file) for file in files], "text", "texts"
    found = find_unit(files[0], data.encoding)
    unit = found if data.unit == "auto" else data.unit
    report.unit = f"{unit}s"
    if found == "block":
        lost = f"read as {unit}s without indentation; to keep line breaks and spaces, set data.unit to block"
        report.advice = "many lines are indented, so white space is kept (data.unit)" if unit == found else f"warning: {lost}"
    report.encoding = show_encoding(files[0], data.encoding)
    limit = SkipLimit(data.allow_skipped, data.encoding, report)
    for file in files:
        blocks = ((lines, range(first, first + len(lines))) for first, lines in line_blocks(file, data.encoding))
        for texts, numbers in blocks if unit == "line" else _paragraphs(blocks, whole=unit == "block"):
            chunk = _clean(texts, numbers, data.normalization, report)
            if chunk.text:
                report.first = report.first or quoted(chunk.text[0], mark='"')
                yield chunk
        limit.check([file], whole=len(files) == 1)
    if not report.advice and (table := next((file for file in files if ending(file) in ENDINGS), None)):
        report.advice = (
            f"warning: {table.name} is named like a table, but is read as text, with every line as a text; to "
            "train on one column, write it to a text file"
        )
    if not report.kept:
        raise DataError(f"no usable text in {' + '.join(report.files)}; the report on its {report.unit}:\n  {report.render()}")


def find_unit(path: str | Path, encoding: str = "auto") -> Literal["line", "block"]:
    """Return `block` if a quarter of a file's first lines have indentation that varies, as in source code; else `line`.

    An indentation is a tab or at least two spaces; one space is often left over from another tool.
    """
    _, lines = next(line_blocks(path, encoding), (1, []))
    indents = [(len(line) - len(line.lstrip(" "))) // 2 for line in (each.expandtabs() for each in lines) if line.strip()]
    changes = sum(one != other for one, other in pairwise(indents))
    return "block" if len(indents) >= 20 and 4 * sum(map(bool, indents)) >= len(indents) <= 10 * changes else "line"


def _paragraphs(blocks: Iterable[tuple[list[str], range]], *, whole: bool) -> Iterator[tuple[list[str], list[int]]]:
    """Join the lines of each paragraph, up to an empty line, and yield paragraphs with the number of their first line.

    A line that is too long becomes a separate paragraph. If `whole` is True, white space is kept, and a paragraph continues
    after an empty line if the next line is indented.
    """
    waiting: list[str] = []
    size = begin = empty = 0
    join = (lambda lines: show_space("\n".join(lines))) if whole else " ".join
    for lines, numbers in blocks:
        texts, begins = [], []
        for line, number in zip(lines, numbers, strict=True):
            stripped, alone = line.strip(), line is OVER_LONG_LINE
            ends = bool(stripped and empty and not line[0].isspace()) if whole else not stripped
            if waiting and (ends or alone or size > _LONGEST_PARAGRAPH):
                texts.append(join(waiting))
                begins.append(begin)
                waiting, size = [], 0
            if alone:
                texts.append(line)
                begins.append(number)
            elif stripped:
                begin = begin if waiting else number
                waiting += [*[""] * (empty if whole and waiting else 0), line.rstrip("\r") if whole else stripped]
                size += len(line)
            empty = 0 if stripped else empty + 1
        yield texts, begins
    if waiting:
        yield [join(waiting)], [begin]


def _clean(texts: Sequence[str], numbers: Sequence[int], form: str, report: ReadingReport) -> TextChunk:
    """Strip and normalise texts, and skip invalid ones, with the reason in the report."""
    report.read += len(texts)
    over_long = [text is OVER_LONG_LINE for text in texts]
    cleaned = normalise(texts, form)
    reasons = [OVER_LONG if far else _find_fault(text) for text, far in zip(cleaned, over_long, strict=True)]
    kept = [place for place, reason in enumerate(reasons) if reason is None]
    for place, reason in enumerate(reasons):
        if reason is not None:
            report.skip(reason, numbers[place])
    report.kept += len(kept)
    return TextChunk([cleaned[place] for place in kept], [numbers[place] for place in kept])


def _find_fault(text: str) -> str | None:
    if not text:
        return EMPTY_LINE
    if "\0" in text:
        return NUL
    return None if is_unicode(text) else NOT_UNICODE


class TextData(SingleTextData[TextCorpus, TextReport]):
    """Texts, ready for training."""


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
        tokenizer: Settings of the tokenizer, which is learned from the training texts only.
        seed: Seed for choosing the held-out texts.
        progress: If True, show progress bars on standard error.
        learned: The tokenizer of a model that training starts from, which is used instead of a new one.

    Returns:
        The corpora, memory-mapped from the cache, with the tokenizer and the report. The same files and settings give the same
        bytes.

    Raises:
        DataError: If a file cannot be read or has no usable text, or the cache cannot be written.
        ConfigError: If the tokenizer needs a package that is not installed or a language that spaCy does not have, or one of
            its limits is too small.
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
        """Split long texts into blocks."""
        ((ids, offsets),) = encoded
        blocks, _ = cut_blocks(ids, offsets, self.data.max_tokens)
        # The end symbol is predicted too, so a text of `max_tokens` tokens needs a second block.
        num_long = int((np.diff(offsets) >= self.data.max_tokens).sum())
        return EncodedRows([blocks], [], [ids], [len(ids) + len(positions)], num_long)

    def report(
        self, selection: Selection[Spool], train: Part[Spool], dev: Part[Spool], tokenizers: Sequence[Tokenizer]
    ) -> TextReport:
        """Return the report, with a note on texts that were split into blocks."""
        num_long, longest = train.num_long + dev.num_long, self.data.max_tokens
        return TextReport(
            **self.count_texts(train, dev, tokenizers),
            dev_tokens=dev.tokens[0],
            notes=[f"texts cut into blocks of {longest:,} tokens (data.max_tokens): {num_long:,}"] if num_long else [],
        )

    def load(self, folder: Path, tokenizers: Sequence[Tokenizer], fingerprint: str) -> TextData:
        """Load the corpora and the report."""
        return TextData(**self.load_texts(folder, tokenizers, fingerprint, TextCorpus, TextReport))
