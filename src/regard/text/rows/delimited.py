"""Tables whose cells are separated: by tabs or `|||` without quoting, or by commas, semicolons or tabs by the rules of CSV.

Because sentences often contain quotation marks, only CSV files have quoted cells; elsewhere, quotation marks are text.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text import reasons
from regard.text.column_rules import ColumnRules
from regard.text.header import Layout, find_layout
from regard.text.opening import CHUNK_CHARACTERS, CHUNK_ROWS, OVER_LONG_LINE, line_blocks
from regard.text.report import ReadingReport
from regard.text.rows import Chunk, Format
from regard.text.strings import quoted

HEAD_ROWS = 1000
"""Number of rows from which the layout of a file is found."""
LONGEST_FIELD = 1 << 22
"""Maximum number of characters of a quoted field, because a missing closing quote would make the field as long as the file."""

# Separators of CSV files, and their names in reports.
_SEPARATED = {"\t": "tab-separated", ",": "comma-separated", ";": "semicolon-separated"}
# First line in which spreadsheet programs such as Excel name the separator of a CSV file.
_EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
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
    # The separator is a comma, a semicolon or a tab, or the character that a first line such as `sep=|` names.
    report.unit = "rows"
    *_, rows = open_csv(path, rules.encoding, report)
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


def open_csv(path: Path, encoding: str, report: ReadingReport) -> tuple[str, bool, Iterator[tuple[int, list[str]]]]:
    """Return the separator of a CSV file, whether its first line names it, and its rows, each with the line where it starts."""
    lines = _csv_lines(path, encoding, report.hashes)
    head: list[str] = []
    size = 0
    while len(head) < HEAD_ROWS and size < CHUNK_CHARACTERS and (line := next(lines, None)) is not None:
        head.append(line)
        size += len(line)
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))  # global limit of the csv module, 131,072 by default
    named = _EXCEL_SEPARATOR.fullmatch(head[0]) if head else None
    head = head[1:] if named else head
    separator = named[1] if named else _find_separator(head, path)
    report.form = _SEPARATED.get(separator, f"separated by {separator}")
    # `strict` makes bad quoting an error; otherwise a stray quote would silently join many rows to one.
    spaced = _has_spaces(head, separator)
    reader = csv.reader(chain(head, lines), delimiter=separator, skipinitialspace=spaced, strict=True)
    return separator, named is not None, _csv_rows(reader, path, report, begin=2 if named else 1)


def _csv_rows(reader: Any, path: Path, report: ReadingReport, *, begin: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a reader of the csv module, whose first line has the number `begin`."""
    number = begin
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            advice = (
                "write a quote inside a quoted field twice, or read the file with data.format tsv if it is separated by tabs "
                "and not quoted"
            )
            if "end of data" in str(error):
                what = "a quote is opened and not closed"
            elif "field limit" in str(error):
                what = f"a quote is opened and not closed, or a field has more than {csv.field_size_limit():,} characters"
            elif "new-line" in str(error):
                what = "a field without quotes has a carriage return (\\r)"
                advice = "put the field in quotes, or write \\n at the ends of lines"
            else:
                what = f"bad quoting ({error})"
            raise DataError(f"{path}, line {number}: {what}; {advice}") from error
        report.read += 1
        yield number, row
        number = reader.line_num + begin


def _csv_lines(path: Path, encoding: str, hashes: dict[str, str]) -> Iterator[str]:
    """Yield the lines, each with a line feed at its end."""
    for lines, numbers in line_blocks(path, encoding, hashes):
        for number, line in zip(numbers, lines, strict=True):
            if line is OVER_LONG_LINE:
                raise DataError(f"{path}, line {number}: is too long to be a row of CSV; is a quote opened and not closed?")
            yield line + "\n"


def _find_separator(head: Sequence[str], path: Path) -> str:
    """Return the separator of a CSV file: the one that splits the first row that any of them splits; else the comma."""
    # If a tab splits this row, it is the separator, because commas and semicolons often occur in texts.
    tables = [_split_head(head, separator) or [] for separator in _SEPARATED]
    first = next((rows for rows in zip_longest(*tables, fillvalue=()) if max(map(len, rows)) > 1), ())
    splitting = {separator: row for separator, row in zip(_SEPARATED, first, strict=False) if len(row) > 1}
    if len(splitting) > 1 and "\t" not in splitting:
        comma, semicolon = (" and ".join(quoted(cell.strip(), 30) for cell in row[:4]) for row in splitting.values())
        raise DataError(
            f"{path}: commas and semicolons both split its rows into columns: a row is {comma} with commas, and {semicolon} "
            "with semicolons; add a first line that names the right one: sep=, or sep=;"
        )
    return next(iter(splitting), ",")


def _has_spaces(head: Sequence[str], separator: str) -> bool:
    """Return True if spaces are between separators and quotes, and the rows obey the rules of quoting without these spaces."""
    cells = chain.from_iterable(_split_head(head, separator) or [])
    spaced = any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for cell in cells)
    return spaced and _split_head(head, separator, spaced=True) is not None


def _split_head(head: Sequence[str], separator: str, *, spaced: bool = False) -> list[list[str]] | None:
    """Return the first lines of a CSV file as rows, of which the last may be incomplete; None if they cannot be read.

    If `spaced`, spaces after a separator are left out, and rows must obey the rules of quoting.
    """
    rows = []
    try:
        for row in csv.reader(head, delimiter=separator, skipinitialspace=spaced, strict=spaced):
            if row:
                rows.append(row)
    except csv.Error as error:
        if "end of data" not in str(error):
            return None
    return rows


FORMATS = {
    "tsv": Format("tab-separated", _read_split, (".tsv", ".tab")),
    "csv": Format("comma-separated", _read_csv, (".csv",)),
    "fast_align": Format("separated by |||", partial(_read_split, separator="|||")),
}
