"""Read tagged sentences from CoNLL files and from tables with lists of words and tags, and report the skipped sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mode
from typing import Any

from regard.config import TaggedDataConfig
from regard.errors import DataError
from regard.text import reasons
from regard.text.clean import Chunk, Labels, clean, read_usable
from regard.text.column_rules import TaggedColumns
from regard.text.labelled.readers import LONGEST_LABEL
from regard.text.opening import CHUNK_ROWS, LONGEST_SIDE, OVER_LONG_LINE, check_file, line_blocks, show_encoding
from regard.text.report import ReadingReport
from regard.text.rows import detect_format, load_format
from regard.text.strings import normalise, quoted, write_value

WHAT = "tagged sentences"
_SPACE = re.compile(r"\s+")
_CELL = re.compile(r"[^ \t\r]+")  # other white space, such as a no-break space, is part of a word
# Ranges of words and empty words of CoNLL-U, which have no tags of their own.
_NO_WORD = re.compile(r"\d+[-.]\d+")

Sentence = tuple[Sequence[Any], Sequence[Any], int, str]
"""Words, tags, number of the line, and the reason for skipping the sentence; empty to keep it."""


def read_tagged(paths: Sequence[str | Path], data: TaggedDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read tagged sentences, chunk by chunk, and fill the report.

    The first column of a chunk has the tags of each sentence, and the second its words, both separated by spaces. Words and
    tags are stripped and converted to the Unicode form of `data.normalization`; an underscore replaces white space inside them,
    and an empty word. The labels of a sentence are its different tags.

    Raises:
        DataError: If a file cannot be read, its columns are not clear, or too many sentences are unusable.
    """
    files = [check_file(path, WHAT) for path in paths]
    report.files, report.kind = [str(file) for file in files], "sentences"
    report.encoding = show_encoding(files[0], data.encoding)
    yield from read_usable([(str(file), [file], _read_file(file, data, report)) for file in files], data, report)


def _read_file(file: Path, data: TaggedDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    form = detect_format(file) if data.format == "auto" else data.format
    if form == "csv":
        raise DataError(
            f"{file}: is a comma-separated table, expected CoNLL (one word and its tag per line, an empty line after each "
            'sentence), or JSON lines such as {"tokens": ["in", "Rome"], "tags": ["O", "B-LOC"]}; convert it, or set '
            "data.format"
        )
    if form in ("jsonl", "parquet"):
        table = load_format(form)
        report.form = table.title
        for (words, tags), lines in table.read(file, TaggedColumns(data), report):
            yield _clean([(*row, "") for row in zip(words, tags, lines, strict=True)], data, report)
        return
    report.form, report.unit = "CoNLL", "sentences"
    rows: list[Sentence] = []
    for sentence in _conll_sentences(file, data, report):
        report.read += 1
        rows.append(sentence)
        if len(rows) == CHUNK_ROWS:
            yield _clean(rows, data, report)
            rows = []
    yield _clean(rows, data, report)


def _conll_sentences(file: Path, data: TaggedDataConfig, report: ReadingReport) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL file: the lines up to an empty line or to `-DOCSTART-`."""
    if not all(re.fullmatch(r"-?\d+", column) for column in data.columns):
        raise DataError(
            f"{file}: data.columns is {','.join(data.columns)}, but columns of CoNLL files have numbers, such as 0,-1"
        )
    first, second = map(int, data.columns or ("0", "-1"))
    needed = max(2, *(place + 1 if place >= 0 else -place for place in (first, second)))
    words: list[str] = []
    tags: list[str] = []
    begin, problem, size, layout = 0, "", 0, _Layout([], second)
    for lines, numbers in line_blocks(file, data.encoding, report.hashes):
        layout = layout if layout.width else _Layout(lines, second)
        for number, line in zip(numbers, lines, strict=True):
            if line is not OVER_LONG_LINE and (not line.strip() or line.startswith("-DOCSTART-")):
                if begin:
                    yield words, tags, begin, problem
                words, tags, begin, problem, size = [], [], 0, "", 0
                continue
            cells, is_comment = layout.cells(line), layout.is_comment(line, inside=bool(words))
            if is_comment is None:
                raise DataError(
                    f"{file}, line {number}: {quoted(line)} may be a comment or the word #; remove comments, or separate the "
                    "columns with tabs"
                )
            if is_comment:
                continue
            if len(cells) == 10 and not data.columns:
                raise DataError(
                    f"{file}, line {number}: has 10 columns, as CoNLL-U does; set data.columns to 1,3 for its words and "
                    "UPOS tags, or to 0,-1 for the first and the last column"
                )
            begin, size = begin or number, size + len(line)
            if len(cells) == 10 and _NO_WORD.fullmatch(cells[0]):
                continue
            if line is OVER_LONG_LINE or size > 2 * LONGEST_SIDE:
                problem, begin = problem or reasons.OVER_LONG, begin if problem else number
                report.advice = report.advice or "there must be an empty line after each sentence"
            elif len(cells) < needed:
                if not report.columns:
                    raise DataError(
                        f"{file}, line {number}: has {len(cells)} of {needed} columns ({quoted(line)}), expected a word and "
                        "its tag, separated by a tab or spaces; choose columns with data.columns, such as 0,-1 for the first "
                        "and the last"
                    )
                problem, begin = problem or reasons.TOO_FEW_COLUMNS, begin if problem else number
            else:
                report.columns = report.columns or [str(place % len(cells)) for place in (first, second)]
                words.append(cells[first])
                tags.append(cells[second])
    if begin:
        yield words, tags, begin, problem


class _Layout:
    """The usual columns and tags of some lines of a CoNLL file, which tell comments from the word #."""

    def __init__(self, lines: Sequence[str], place: int) -> None:
        usual = [line for line in lines if line.strip() and not line.startswith(("# ", "-DOCSTART-"))]
        self.place, self.tabs = place, any("\t" in line for line in usual)
        rows = list(map(self.cells, usual))
        self.width = mode(map(len, rows)) if rows else 0
        self.tags = {"O", *(tag for row in rows for tag in row[place:][:1])}

    def cells(self, line: str) -> list[str]:
        """Return the columns of a line, separated by tabs, or by spaces and tabs."""
        return [cell.strip() for cell in line.split("\t")] if self.tabs else _CELL.findall(line)

    def is_comment(self, line: str, *, inside: bool) -> bool | None:
        """Return whether a line is a comment; None if that is unclear. `inside`: whether its sentence has words already."""
        if line.startswith("#" if self.tabs else "# ") and ("\t" in line) != self.tabs:
            return True
        if not line.startswith("# "):
            return False
        cells = self.cells(line)
        odd, new = self.width not in (0, len(cells)), not inside and self.tags.isdisjoint(cells[self.place :][:1])
        return odd if odd == new else None


def _clean(rows: Sequence[Sentence], data: TaggedDataConfig, report: ReadingReport) -> Chunk:
    """Return the usable sentences of some rows."""
    words, tags, labels, lines = [], [], [], []
    for row_words, row_tags, line, problem in rows:
        own, named = _items(row_words, data.normalization), _items(row_tags, data.normalization)
        found: Labels | str = problem or tuple(dict.fromkeys(named))
        if not problem and len(own) != len(named):
            found = reasons.UNEVEN
        elif not all(named):
            found = problem or reasons.EMPTY_LABEL
        elif max(map(len, named), default=0) > LONGEST_LABEL:
            found = problem or reasons.LONG_LABEL
        words.append(" ".join(word or "_" for word in own))
        tags.append(" ".join(tag or "_" for tag in named))
        labels.append(found)
        lines.append(line)
    uneven = (reasons.UNEVEN, reasons.UNEVEN)  # if one of the two columns is empty
    chunk = clean([tags, words], lines, data.normalization, report, empty=uneven, labels=labels, multiple=True)
    if chunk.line and not report.first:
        first = zip(chunk.target[0].split(" "), chunk.source[0].split(" "), strict=True)
        report.first = quoted(" ".join("/".join(pair) for pair in first), mark='"')
    return chunk


def _items(values: Iterable[Any], form: str) -> list[str]:
    """Return words or tags as text without white space."""
    texts = ("" if value is None else write_value(value) for value in values)
    return [_SPACE.sub("_", item) for item in normalise(texts, form)]
