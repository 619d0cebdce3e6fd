"""Pairs from tab-separated and comma-separated files.

Sentences hold quotes as a matter of course, so tabs are split plainly; only real CSV has quoting, and that strictly.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from regard.config import DataConfig
from regard.errors import DataError
from regard.text.columns import Layout, find_layout
from regard.text.lines import OVER_LONG_LINE, line_blocks
from regard.text.report import EMPTY_LINE, OVER_LONG, TOO_FEW_COLUMNS, ReadingReport

NumberedRow = tuple[int, list[str]]
RawChunk = tuple[Sequence[str], Sequence[str], Sequence[int]]
"""Sources, targets and line numbers, before cleaning."""

HEAD_ROWS = 1000
"""Rows that a file's layout is judged by."""

CHUNK_ROWS = 4096

_LONE_RETURN = re.compile(r"\r(?!\n|$)")
_STAND_IN = "\ud800"
"""Stands in for a lone carriage return, which the csv module takes for the end of a row; no decoded text holds it."""


def read_tsv(path: Path, data: DataConfig, report: ReadingReport) -> Iterator[RawChunk]:
    """Tab-separated lines, split at every tab: a quote is a quote.

    Raises:
        DataError: As `lines.line_blocks` and `columns.find_layout`.
    """
    layout: Layout | None = None
    for first, lines in line_blocks(path):
        report.read += len(lines)
        rows = [line.split("\t") for line in lines]
        numbers: Sequence[int] = range(first, first + len(rows))
        if layout is None:
            layout = find_layout(rows[:HEAD_ROWS], data, path)
            report.columns = list(layout.names)
            if layout.first:
                stray = next(place for place, row in enumerate(rows) if any(cell.strip() for cell in row))
                report.skip(layout.first, numbers[stray])
                rows.pop(stray)
                numbers = [*numbers[:stray], *numbers[stray + 1 :]]
        source, target = layout.source, layout.target
        try:
            yield [row[source] for row in rows], [row[target] for row in rows], numbers
        except IndexError:
            rows, numbers = _wide_enough(rows, numbers, max(source, target) + 1, report)
            yield [row[source] for row in rows], [row[target] for row in rows], numbers


def read_csv(path: Path, data: DataConfig, report: ReadingReport) -> Iterator[RawChunk]:
    """Comma-separated rows with real quoting; or separated by semicolons or tabs where that fits better.

    Raises:
        DataError: If a quote is not closed, or something follows a closing one; else as `read_tsv`.
    """
    report.unit = "rows"
    numbered = _csv_rows(path, report)
    head = list(islice(numbered, HEAD_ROWS))
    layout = find_layout([row for _, row in head] or [[]], data, path)
    report.columns = list(layout.names)
    rows: Iterator[NumberedRow] = chain(head, numbered)
    if layout.first:
        rows = _without_first(rows, layout.first, report)
    while chunk := list(islice(rows, CHUNK_ROWS)):
        width = max(layout.source, layout.target) + 1
        wide, numbers = _wide_enough([row for _, row in chunk], [number for number, _ in chunk], width, report)
        yield [row[layout.source] for row in wide], [row[layout.target] for row in wide], numbers


def _wide_enough(
    rows: Sequence[list[str]], numbers: Sequence[int], width: int, report: ReadingReport
) -> tuple[list[list[str]], list[int]]:
    kept, places = [], []
    for row, number in zip(rows, numbers, strict=True):
        if len(row) >= width:
            kept.append(row)
            places.append(number)
        elif row and row[0] is OVER_LONG_LINE:
            report.skip(OVER_LONG, number)
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


def _csv_rows(path: Path, report: ReadingReport) -> Iterator[NumberedRow]:
    """The rows with the number of the line each starts on."""
    lines = _csv_lines(path)
    head = list(islice(lines, 50))
    reader = csv.reader(chain(head, lines), delimiter=_find_separator(head), strict=True)
    number = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = re.search("end of data|field limit", str(error))
            what = "a quote is opened and not closed" if unclosed else f"bad quoting ({error})"
            raise DataError(
                f"{path}, line {number}: {what}; write a quote inside a quoted field twice, or read the file with "
                "data.format tsv if it is separated by tabs and not quoted"
            ) from error
        report.read += 1
        yield number, [cell.replace(_STAND_IN, "\r") for cell in row] if any(_STAND_IN in cell for cell in row) else row
        number = reader.line_num + 1


def _find_separator(head: list[str]) -> str:
    """The first of comma, semicolon and tab that gives every row the same number of columns, two or more; else a comma."""
    for separator in ",;\t":
        try:
            widths = {len(row) for row in csv.reader(head, delimiter=separator) if row}
        except csv.Error:
            continue
        if len(widths) == 1 and widths.pop() > 1:
            return separator
    return ","


def _csv_lines(path: Path) -> Iterator[str]:
    for first, lines in line_blocks(path):
        for number, line in enumerate(lines, first):
            if line is OVER_LONG_LINE:
                raise DataError(f"{path}, line {number}: is too long to be a row of CSV; is a quote opened and not closed?")
            yield (_LONE_RETURN.sub(_STAND_IN, line) if "\r" in line else line) + "\n"
