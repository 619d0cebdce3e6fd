"""Tables whose cells are separated: by tabs or `|||` without quoting, or by commas, semicolons or tabs by the rules of CSV.

Because sentences often contain quotation marks, only CSV files have quoted cells; elsewhere, quotation marks are text.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path

from regard.errors import DataError
from regard.text import reasons
from regard.text.column_rules import ColumnRules
from regard.text.header import Layout, find_layout
from regard.text.opening import CHUNK_CHARACTERS, CHUNK_ROWS, OVER_LONG_LINE, line_blocks
from regard.text.report import ReadingReport
from regard.text.rows import Chunk, Format, most_lines
from regard.text.strings import quoted

HEAD_ROWS = 1000
"""Number of rows from which the layout of a file is found."""
LONGEST_FIELD = 1 << 22
"""Maximum number of characters of a quoted field, because a missing closing quote would make the field as long as the file."""

_SEPARATED = {",": "comma-separated", ";": "semicolon-separated", "\t": "tab-separated"}
"""Separators of CSV files, and their names in reports."""
_CLEAR_SHARE = 0.5
"""Minimum share of the first rows that a separator must split into the same number of columns."""
_EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
"""First line in which spreadsheet programs such as Excel name the separator of a CSV file."""
_LONE_RETURN = re.compile(r"\r(?!\n|$)")
_STAND_IN = "\ud800"
"""Placeholder for a lone carriage return, which the csv module would read as the end of a row; decoded text never contains it.
"""

NumberedRows = tuple[list[list[str]], Sequence[int]]


def _choose(blocks: Iterator[NumberedRows], rules: ColumnRules, path: Path, report: ReadingReport) -> Iterator[Chunk]:
    """Choose two columns by the first block of rows, and yield their values."""
    layout: Layout | None = None
    for rows, numbers in blocks:
        if layout is None:
            layout = find_layout(rows[:HEAD_ROWS], rules, path)
            report.columns, report.advice = list(layout.names), layout.advice
            if report.form == "tab-separated" and report.unit == "lines" and _are_quoted(rows[:HEAD_ROWS], layout):
                quotes = f"The quotation marks around cells of {path.name} are read as text"
                report.advice = f"{quotes}; to remove them, set data.format to csv, or write the file without them."
        yield layout.select(rows, numbers, report)


def _are_quoted(rows: Sequence[Sequence[str]], layout: Layout) -> bool:
    """Return True if at least half of the cells of a chosen column begin and end with a quotation mark."""
    columns = ([row[place].strip() for row in rows if place < len(row)] for place in layout.places)
    return any(2 * sum(cell[:1] == cell[-1:] == '"' for cell in cells) >= len(cells) > 0 for cells in columns)


def _read_split(path: Path, rules: ColumnRules, report: ReadingReport, separator: str = "\t") -> Iterator[Chunk]:
    """Read lines that are split at every separator."""

    def split_lines() -> Iterator[NumberedRows]:
        for lines, numbers in line_blocks(path, rules.encoding, report.hashes):
            report.read += len(lines)
            if lines[0] is OVER_LONG_LINE:  # such a line forms its own block
                report.skip(reasons.OVER_LONG, numbers[0])
            else:
                yield [line.split(separator) for line in lines], numbers

    return _choose(split_lines(), rules, path, report)


def _read_csv(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    """Read rows of a CSV file."""
    # The separator is a comma, a semicolon or a tab, or the character that a first line such as `sep=|` names.
    report.unit = "rows"
    rows = _csv_rows(path, rules.encoding, report)
    blocks = chain([_take(rows, HEAD_ROWS)], iter(lambda: _take(rows, CHUNK_ROWS), ([], [])))
    yield from _choose(blocks, rules, path, report)


def _take(numbered: Iterator[tuple[int, list[str]]], most: int) -> NumberedRows:
    """Return the next rows, at most `most` of them; fewer if they are long."""
    rows, numbers, size = [], [], 0
    for number, row in islice(numbered, most):
        rows.append(row)
        numbers.append(number)
        size += len(row) + sum(map(len, row))
        if size > CHUNK_CHARACTERS:
            break
    return rows, numbers


def _csv_rows(path: Path, encoding: str, report: ReadingReport) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of the line on which it starts."""
    lines = _csv_lines(path, encoding, report.hashes)
    head: list[str] = []
    size = 0
    while len(head) < HEAD_ROWS and size < CHUNK_CHARACTERS and (line := next(lines, None)) is not None:
        head.append(line)
        size += len(line)
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))  # global limit of the csv module, 131,072 by default
    named = _EXCEL_SEPARATOR.fullmatch(head[0]) if head else None
    head = head[1:] if named else head
    start = _split_start(head, named[1]) if named else _find_separator(head, path)
    report.form = _SEPARATED.get(start.separator, f"separated by {start.separator}")
    # `strict` makes bad quoting an error; otherwise a stray quote would silently join many rows to one.
    reader = csv.reader(chain(head, lines), delimiter=start.separator, skipinitialspace=start.spaced, strict=True)
    number = begin = 2 if named else 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = f"bad quoting ({error})"
            if "end of data" in str(error):
                what = "a quote is opened and not closed"
            elif "field limit" in str(error):
                what = f"a quote is opened and not closed, or a field has more than {csv.field_size_limit():,} characters"
            raise DataError(
                f"{path}, line {number}: {what}; write a quote inside a quoted field twice, or read the file with "
                "data.format tsv if it is separated by tabs and not quoted"
            ) from error
        report.read += 1
        yield number, [cell.replace(_STAND_IN, "\r") for cell in row] if any(_STAND_IN in cell for cell in row) else row
        number = reader.line_num + begin


def _csv_lines(path: Path, encoding: str, hashes: dict[str, str]) -> Iterator[str]:
    """Yield the lines, each with a line feed at its end and placeholders for lone carriage returns."""
    for lines, numbers in line_blocks(path, encoding, hashes):
        for number, line in zip(numbers, lines, strict=True):
            if line is OVER_LONG_LINE:
                raise DataError(f"{path}, line {number}: is too long to be a row of CSV; is a quote opened and not closed?")
            yield (_LONE_RETURN.sub(_STAND_IN, line) if "\r" in line else line) + "\n"


@dataclass(frozen=True)
class _Start:
    """The first rows of a CSV file, split with one separator."""

    separator: str
    spaced: bool
    """Whether spaces after a separator are ignored, so that a quote may follow them."""
    rows: Sequence[Sequence[str]]

    @cached_property
    def width(self) -> int:
        """The most common number of columns among rows with two or more columns; 0 if no row has two."""
        widths = Counter(len(row) for row in self.rows if len(row) > 1)
        return max(widths, key=lambda size: (widths[size], size), default=0)

    @cached_property
    def share(self) -> float:
        return bool(self.width) * sum(len(row) == self.width for row in self.rows) / max(len(self.rows), 1)

    def show(self) -> str:
        """Return the first row with `width` columns, for messages."""
        row = next(row for row in self.rows if len(row) == self.width)
        return " and ".join(quoted(cell.strip(), 30) for cell in row[:4])


def _find_separator(head: Sequence[str], path: Path) -> _Start:
    """Choose the separator of a CSV file, and return the first rows, split with it."""
    # A separator can be chosen if it gives at least half of the rows the same number of columns, two or more; without any, it
    # is the comma. Of several, those remain that split the first row that one of them splits, because this may be the header;
    # then those that obey the rules of quoting, unlike a comma inside quoted cells. A tab is chosen before the others.
    comma, semicolon, tab = (_split_start(head, separator) for separator in _SEPARATED)
    clear = [start for start in (tab, comma, semicolon) if start.share >= _CLEAR_SHARE]
    if not clear:
        return comma
    firsts = next(rows for rows in zip(*(start.rows for start in clear), strict=False) if max(map(len, rows)) > 1)
    clear = [start for start, row in zip(clear, firsts, strict=True) if len(row) > 1]
    clear = [start for start in clear if _split_head(head, start.separator, spaced=start.spaced, strict=True)] or clear
    if clear[0] is tab or len(clear) == 1:
        return clear[0]
    raise DataError(
        f"{path}: commas and semicolons both split its rows into columns: a row is {comma.show()} with commas, and "
        f"{semicolon.show()} with semicolons; add a first line that names the right one: sep=, or sep=;"
    )


def _split_start(head: Sequence[str], separator: str) -> _Start:
    """Split the first rows of a CSV file with one separator."""
    # Spaces between a separator and a quote are ignored if the rows then obey the rules of quoting, and no fewer of them have
    # the same number of columns.
    plain = _split_head(head, separator) or _Start(separator, False, [])
    if not any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for row in plain.rows for cell in row):
        return plain
    spaced = _split_head(head, separator, spaced=True, strict=True)
    return spaced if spaced and spaced.share >= plain.share else plain


def _split_head(head: Sequence[str], separator: str, *, spaced: bool = False, strict: bool = False) -> _Start | None:
    """Return the first lines of a CSV file as rows, of which the last may be incomplete; None if they cannot be read."""
    # If `spaced`, spaces after a separator are ignored; if `strict`, rows must obey the rules of quoting.
    rows = []
    try:
        for row in csv.reader(head, delimiter=separator, skipinitialspace=spaced, strict=strict):
            if row:
                rows.append(row)
    except csv.Error as error:
        if "end of data" not in str(error):
            return None
    return _Start(separator, spaced, rows)


def _has_bars(start: bytes) -> bool:
    return most_lines(start, lambda line: line.count(b"|||") == 1 and b"\t" not in line)


FORMATS = {
    "tsv": Format("tab-separated", _read_split, (".tsv", ".tab")),
    "csv": Format("comma-separated", _read_csv, (".csv",)),
    "fast_align": Format("separated by |||", partial(_read_split, separator="|||"), begins=_has_bars),
}
