"""Plain texts for language models: read text files, drop duplicates, and split long texts into blocks."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from regard.config import TextDataConfig, TokenizerConfig
from regard.errors import DataError
from regard.text import reasons
from regard.text.clean import Chunk, clean, read_usable
from regard.text.corpora import TextCorpus, cut_blocks
from regard.text.mapped import Rows
from regard.text.opening import OVER_LONG_LINE, check_file, line_blocks, show_encoding
from regard.text.preparation import DataSchema, EncodedRows, Part
from regard.text.report import ReadingReport
from regard.text.rows import detect_format, find_table
from regard.text.split import Indices
from regard.text.spool import Texts
from regard.text.symbols import show_space
from regard.text.tokenizers.tokenizer import Tokenizer

WHAT = "text"
# Number of characters after which a paragraph is split at the end of the line, so that a file without empty lines cannot fill
# the memory.
_LONGEST_PARAGRAPH = 1 << 20


def read_texts(paths: Sequence[str | Path], data: TextDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read texts, chunk by chunk, so that memory does not grow with the file; the report is filled on the way.

    Texts are stripped and converted to the Unicode form of `data.normalization`, and not changed otherwise. If `data.unit` is
    `paragraph`, the stripped lines of a paragraph are joined with spaces. If it is `block`, symbols replace all white space
    that tokenizers would drop (`symbols.show_space`).
    """
    files = [check_file(path, WHAT) for path in paths]
    if packed := next((file for file in files if detect_format(file) == "parquet"), None):
        raise DataError(f"{packed}: is a Parquet file, expected text; write its texts to a text file, one text per line")
    report.files, report.form, report.kind = [str(file) for file in files], "text", "texts"
    found = find_unit(files[0], data.encoding)
    unit = found if data.unit == "auto" else data.unit
    report.unit = f"{unit}s"
    if found == "block":
        lost = f"read as {unit}s without indentation; to keep line breaks and spaces, set data.unit to block"
        report.advice = "many lines are indented, so white space is kept (data.unit)" if unit == found else f"warning: {lost}"
    elif table := find_table(files):
        report.advice = (
            f"warning: {table.name} is named like a table, but is read as text, with every line as a text; to "
            "train on one column, write it to a text file"
        )
    report.encoding = show_encoding(files[0], data.encoding)
    yield from read_usable([(str(file), [file], _read_file(file, unit, data, report)) for file in files], data, report)


def _read_file(file: Path, unit: str, data: TextDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    lines = line_blocks(file, data.encoding, report.hashes)
    for texts, numbers in lines if unit == "line" else _paragraphs(lines, whole=unit == "block"):
        report.read += len(texts)
        yield clean([texts], numbers, data.normalization, report, empty=(reasons.EMPTY_LINE,), longest=sys.maxsize)


def find_unit(path: str | Path, encoding: str = "auto") -> Literal["line", "block"]:
    """Return `block` if a quarter of a file's first lines have indentation that varies, as in source code; else `line`."""
    # An indentation is a tab or at least two spaces; one space is often left over from another tool.
    lines, _ = next(line_blocks(path, encoding), ([], range(0)))
    indents = [(len(line) - len(line.lstrip(" "))) // 2 for line in (each.expandtabs() for each in lines) if line.strip()]
    changes = sum(one != other for one, other in pairwise(indents))
    return "block" if len(indents) >= 20 and 4 * sum(map(bool, indents)) >= len(indents) <= 10 * changes else "line"


def _paragraphs(blocks: Iterable[tuple[list[str], range]], *, whole: bool) -> Iterator[tuple[list[str], list[int]]]:
    """Join the lines of each paragraph, up to an empty line, and yield paragraphs with the number of their first line."""
    # A line that is too long is a paragraph. If `whole` is True, white space is kept, and a paragraph continues after an empty
    # line if the next line is indented.
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


class TextSchema(DataSchema):
    """Texts without a translation or a label; `learned` is the tokenizer of a model that training starts from."""

    content = WHAT
    example = "a text file"
    corpus = TextCorpus
    data: TextDataConfig

    def __init__(self, data: TextDataConfig, tokenizer: TokenizerConfig, learned: Tokenizer | None = None) -> None:
        super().__init__(data, (tokenizer,), (learned,) if learned else None)
        self.max_rows = data.max_texts

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        return read_texts(paths, self.data, report)

    def encode(self, part: Part, positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Split long texts into blocks."""
        ((ids, offsets),) = encoded
        blocks, _ = cut_blocks(ids, offsets, self.data.max_tokens)
        # The end symbol is predicted too, so a text of `max_tokens` tokens needs a second block.
        num_long = int((np.diff(offsets) >= self.data.max_tokens).sum())
        return EncodedRows([blocks], [], [ids], [len(ids) + len(positions)], num_long)

    def notes(self, too_long: int) -> list[str]:
        return [f"texts cut into blocks of {self.data.max_tokens:,} tokens (data.max_tokens): {too_long:,}"] if too_long else []
