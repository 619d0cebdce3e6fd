"""Columns of tab-separated and comma-separated files.

Because sentences often contain quotation marks, tab-separated lines are split at tabs without quoting. Only CSV has quoting,
with strict rules.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.files.columns import TwoColumns
from regard.text.files.header import Layout, find_layout
from regard.text.files.opening import CHUNK_CHARACTERS, OVER_LONG_LINE, line_blocks
from regard.text.files.report import EMPTY_LINE, OVER_LONG, TOO_FEW_COLUMNS, TOO_MANY_COLUMNS, ReadingReport

NumberedRow = tuple[int, list[str]]
RawChunk = tuple[Sequence[Sequence[Any]], Sequence[int]]
"""The wanted columns and the line numbers, before cleaning. Values are text, unless `TwoColumns.kinds` allows other types."""

HEAD_ROWS = 1000
"""Number of rows from which the layout of a file is found."""

CHUNK_ROWS = 4096
LONGEST_FIELD = 1 << 22
"""Maximum number of characters of a quoted field, because a missing closing quote would make the field as long as the file."""

_SEPARATED = {",": "comma-separated", ";": "semicolon-separated", "\t": "tab-separated"}
"""Separators of CSV files, and their names in reports."""
_CLEAR_SHARE = 0.5
"""Minimum share of the first rows that a separator must split into as many columns as the first row."""

_EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
"""First line in which spreadsheet programs such as Excel name the separator of a CSV file."""

_LONE_RETURN = re.compile(r"\r(?!\n|$)")
_STAND_IN = "\ud800"
"""Placeholder for a lone carriage return, which the csv module would read as the end of a row; decoded text never contains it.
"""


def read_fast_align(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read lines with two sides separated by `|||`, as in fast_align.

    Raises:
        DataError: As for `read_tsv`.
    """
    return read_tsv(path, wanted, report, separator="|||")


def read_tsv(path: Path, wanted: TwoColumns, report: ReadingReport, separator: str = "\t") -> Iterator[RawChunk]:
    """Read tab-separated lines, split at every tab; quotation marks have no special meaning.

    Args:
        path: The file.
        wanted: The columns to look for.
        report: Report, which is filled while reading.
        separator: Separator of the columns.

    Raises:
        DataError: As for `opening.line_blocks` and `header.find_layout`.
    """
    layout: Layout | None = None
    for first, lines in line_blocks(path, wanted.encoding):
        report.read += len(lines)
        if lines[0] is OVER_LONG_LINE:  # such a line forms its own block
            report.skip(OVER_LONG, first)
            continue
        rows = [line.split(separator) for line in lines]
        numbers: Sequence[int] = range(first, first + len(rows))
        if layout is None:
            layout = find_layout(rows[:HEAD_ROWS], wanted, path)
            report.columns = list(layout.names)
            if layout.first:
                stray = next(place for place, row in enumerate(rows) if any(cell.strip() for cell in row))
                report.skip(layout.first, numbers[stray])
                rows.pop(stray)
                numbers = [*numbers[:stray], *numbers[stray + 1 :]]
        if layout.width and not set(map(len, rows)) <= {layout.width}:
            rows, numbers = _fitting(rows, numbers, layout, report)
        try:
            yield [[row[place] for row in rows] for place in layout.places], numbers
        except IndexError:
            rows, numbers = _fitting(rows, numbers, layout, report)
            yield [[row[place] for row in rows] for place in layout.places], numbers


def read_csv(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read rows of a CSV file with quoting; the separator is a comma, a semicolon or a tab.

    Raises:
        DataError: If a quote is not closed, or text follows a closing quote; else as for `read_tsv`.
    """
    report.unit = "rows"
    numbered = _csv_rows(path, wanted.encoding, report)
    head = _take(numbered, HEAD_ROWS)
    layout = find_layout([row for _, row in head] or [[]], wanted, path)
    report.columns = list(layout.names)
    rows: Iterator[NumberedRow] = chain(head, numbered)
    if layout.first:
        rows = _without_first(rows, layout.first, report)
    while chunk := _take(rows, CHUNK_ROWS):
        rows_kept, numbers = _fitting([row for _, row in chunk], [number for number, _ in chunk], layout, report)
        yield [[row[place] for row in rows_kept] for place in layout.places], numbers


def _take(rows: Iterator[NumberedRow], most: int) -> list[NumberedRow]:
    """Return the next rows, at most `most` of them; fewer if they are long."""
    taken, size = [], 0
    for row in islice(rows, most):
        taken.append(row)
        size += len(row[1]) + sum(map(len, row[1]))
        if size > CHUNK_CHARACTERS:
            break
    return taken


def _fitting(
    rows: Sequence[list[str]], numbers: Sequence[int], layout: Layout, report: ReadingReport
) -> tuple[list[list[str]], list[int]]:
    """Return the rows with a valid number of columns, and their line numbers."""
    width = layout.width or max(layout.places) + 1
    kept, places = [], []
    for row, number in zip(rows, numbers, strict=True):
        if len(row) >= width:
            if layout.width and any(cell.strip() for cell in row[width:]):
                report.skip(TOO_MANY_COLUMNS, number)
                continue
            kept.append(row)
            places.append(number)
        else:
            report.skip(TOO_FEW_COLUMNS if any(cell.strip() for cell in row) else EMPTY_LINE, number)
    return kept, places


def _without_first(rows: Iterable[NumberedRow], reason: str, report: ReadingReport) -> Iterator[NumberedRow]:
    waiting = True
    for number, row in rows:
        if waiting and any(cell.strip() for cell in row):
            report.skip(reason, number)
            waiting = False
        else:
            yield number, row


def _csv_rows(path: Path, encoding: str, report: ReadingReport) -> Iterator[NumberedRow]:
    """Yield each row with the number of the line on which it starts."""
    lines = _csv_lines(path, encoding)
    head: list[str] = []
    while len(head) < 50 and sum(map(len, head)) < CHUNK_CHARACTERS and (line := next(lines, None)) is not None:
        head.append(line)
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))  # global limit of the csv module, 131,072 by default
    named = _EXCEL_SEPARATOR.fullmatch(head[0]) if head else None
    head = head[1:] if named else head
    separator = named[1] if named else _find_separator(head)
    report.form = _SEPARATED.get(separator, f"separated by {separator}")
    reader = csv.reader(chain(head, lines), delimiter=separator, strict=True)
    number = start = 2 if named else 1
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
        number = reader.line_num + start


def _find_separator(head: list[str]) -> str:
    """Return the first of comma, semicolon and tab that gives every row the same number of columns, two or more.

    If no separator does, return the one that gives the most rows as many columns as the first row, or a comma if these are
    fewer than half of the rows.
    """
    shares = dict.fromkeys(_SEPARATED, 0.0)
    for separator in _SEPARATED:
        try:
            widths = [len(row) for row in csv.reader(head, delimiter=separator) if row]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            shares[separator] = widths.count(widths[0]) / len(widths)
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= _CLEAR_SHARE else ","


def _csv_lines(path: Path, encoding: str) -> Iterator[str]:
    for first, lines in line_blocks(path, encoding):
        for number, line in enumerate(lines, first):
            if line is OVER_LONG_LINE:
                raise DataError(f"{path}, line {number}: is too long to be a row of CSV; is a quote opened and not closed?")
            yield (_LONE_RETURN.sub(_STAND_IN, line) if "\r" in line else line) + "\n"
