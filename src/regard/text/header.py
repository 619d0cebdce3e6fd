"""The header of a table whose values have no types, such as CSV, if it has one, and the positions of the wanted columns.

The first line is a header if its cells are names that columns usually have, or if they differ from the values below in type or
in their form as identifiers. If it could be a header only because its cells are much shorter than the texts below, an error
asks for `data.header`. A cell that is a value, ends like a sentence or occurs again in its column is no name.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from statistics import median

from regard.errors import DataError
from regard.plurals import counted
from regard.scripts import SENTENCE_ENDS, is_spaceless
from regard.text import reasons
from regard.text.column_rules import ColumnRules, is_metadata
from regard.text.columns import SAMPLE_ROWS, Column, build_column, choose_columns, is_place
from regard.text.content import is_code, is_value
from regard.text.encodings import advise_decoding
from regard.text.report import ReadingReport
from regard.text.strings import is_unicode, quoted, trim

_LONGEST_NAME = 60
_MOST_WORDS = 6
# Maximum number of lines above a header.
_MOST_TITLES = 3
# Minimum share of undecodable rows for which an error about columns names the encoding as the probable cause.
_DAMAGED = 0.1
# Minimum length of texts that a name is compared with, in characters; half of it for scripts without spaces between words.
_LENGTH_OF_TEXTS = 20
_IDENTIFIER = re.compile(r"[A-Za-z]+(_[A-Za-z0-9]+)+|[a-z]+([A-Z][a-z0-9]+)+")

Rows = Sequence[Sequence[str]]
Numbered = tuple[list[list[str]], Sequence[int]]
"""Rows and their line numbers."""


@dataclass(frozen=True)
class Layout:
    """Layout of a table: positions of the wanted columns, the header, and valid numbers of columns."""

    places: tuple[int, int]
    names: tuple[str, ...]
    """Names of the columns in reports."""
    least: int
    """Minimum number of columns of a line."""
    width: int
    """Number of columns; a line with text after them has too many."""
    header: tuple[str, ...] = ()
    """Cells of the header or of a line of column numbers, stripped; empty without one. Joined files contain it again."""
    advice: str = ""
    """Advice about lines with too many columns, or on the first line; may be empty."""

    def select(self, rows: list[list[str]], numbers: Sequence[int], report: ReadingReport) -> Numbered:
        """Return the values of the two columns and the line numbers, without headers and rows of a wrong width."""
        rows, numbers = skip_headers(rows, numbers, self.header, report)
        sizes = set(map(len, rows))
        if sizes and (min(sizes) < self.least or max(sizes) > self.width):
            rows, numbers = _drop(rows, numbers, list(map(self._find_fault, rows)), report)
        return [[row[place] for row in rows] for place in self.places], numbers

    def _find_fault(self, row: Sequence[str]) -> str:
        if len(row) < self.least:
            return reasons.TOO_FEW_COLUMNS if any(cell.strip() for cell in row) else reasons.EMPTY_LINE
        return reasons.TOO_MANY_COLUMNS if _is_wider(row, self.width) else ""


def skip_headers(rows: list[list[str]], numbers: Sequence[int], header: tuple[str, ...], report: ReadingReport) -> Numbered:
    """Return the rows and their line numbers without rows that equal the header, which files that were joined repeat."""
    if not header:
        return rows, numbers
    longest = max(header, key=len)
    place = header.index(longest)
    # Stripping all cells takes long, so the longest name is looked for first.
    repeats = (len(row) == len(header) and longest in row[place] and tuple(map(trim, row)) == header for row in rows)
    return _drop(rows, numbers, [reasons.HEADER if repeat else "" for repeat in repeats], report)


def _drop(rows: list[list[str]], numbers: Sequence[int], reasons: Sequence[str], report: ReadingReport) -> Numbered:
    """Return the rows without a reason for skipping them, and their line numbers; the report counts the others."""
    for number, reason in zip(numbers, reasons, strict=True):
        if reason:
            report.skip(reason, number)
    kept = [not reason for reason in reasons]
    return list(compress(rows, kept)), list(compress(numbers, kept))


def find_layout(rows: Rows, rules: ColumnRules, path: Path) -> Layout:
    """Find the layout of a file whose values have no types, such as CSV, from its first rows."""
    stripped = [cells for row in rows if any(cells := list(map(trim, row)))]
    # In a wrong encoding, the names of columns are not recognised either; the error should name the first cause.
    try:
        return _find_layout(stripped[: SAMPLE_ROWS + 1], rules, path)
    except DataError as error:
        damaged = [any("\0" in cell or not is_unicode(cell) for cell in row) for row in stripped]
        if not any(damaged[:1]) and sum(damaged) < max(_DAMAGED * len(damaged), 1):
            raise
        form, fault = "UTF-8" if rules.encoding == "auto" else rules.encoding, str(error).removeprefix(f"{path}: ")
        raise type(error)(
            f"{path}: is probably not in {form}. {advise_decoding([path], rules.encoding)} Reading it as {form} gives this "
            f"error: {fault}"
        ) from None


def _find_layout(rows: Rows, rules: ColumnRules, path: Path) -> Layout:
    _check_columns(rows, rules, path)
    given = [name for name in rules.given if name]
    # A name in the settings implies a header; two numbers do not.
    by_number, by_name = len(given) == 2 and all(map(is_place, given)), not all(map(is_place, given)) and rules.header != "no"
    first, data = rows[0], rows
    header: tuple[str, ...] = ()
    names: Sequence[str] | None = None
    if rules.header == "yes" or by_name or (rules.header == "auto" and is_header(first, data[1:], rules, path)):
        header, names, data = tuple(first), first, [row for row in data if row != first]
    elif rules.header == "auto" and _is_numbered(first, data[1:]):
        header, data = tuple(first), data[1:]  # no names: `1` in the settings means the second column, not the one named 1
    usual = _usual_width(data, rules)
    # Columns of pairs that are given by number may be read from lines with any number of further columns.
    free = by_number and rules.in_order
    usual_or_named = max(usual, len(header))
    width = len(names) if names is not None and not by_number else max(map(len, data), default=0) if free else usual_or_named
    named = None if names is None else [*names, *[""] * (width - len(names))]
    places = choose_columns(named, [[*row[:width], *[""] * (width - len(row))] for row in data], rules, path)
    # If most lines have more columns than the header, its names may belong to other columns.
    known = named if named and usual <= len(header) else [""] * width
    limit = sys.maxsize if free else width
    advice = ""
    if 20 * sum(_is_wider(row, limit) for row in data) > len(data):
        advice = (
            "Lines with too many columns have unquoted separators in the text, row names (in R, write with row.names=FALSE) or "
            f"further columns; to read them, give two columns by number, counted from 0, with {rules.settings}."
        )
    elif not header and rules.header == "auto" and all(map(_is_word, first)):
        advice = "Line 1 is read as an example. If it names the columns, set data.header to yes."
    least = max(places) + 1 if rules.in_order else limit
    return Layout(places, tuple(known[place] or str(place) for place in places), least, limit, header, advice)


def _check_columns(rows: Rows, rules: ColumnRules, path: Path) -> None:
    """Raise an error if there is one column, or a title above the header."""
    if any(row[0].startswith("__label__") for row in rows[:1]):
        raise DataError(f"{path}: is in fastText's format; set data.format to fasttext")
    if _usual_width(rows, rules) < 2:
        start = next((row[0] for row in rows), "")[:60]
        other = next((each for each in "|~^" if rows and all(each in row[0] and 2 * each not in row[0] for row in rows)), "")
        if other:
            remedy = f"if {other} separates the columns, add the first line sep={other}, and set data.format to csv"
        else:
            remedy = f"{rules.one_column}, or set data.format to that of the file, such as {rules.formats}"
        raise DataError(
            f"{path}: has one column (it starts with {start!r}), expected {rules.what} in two or more columns; {remedy}"
        )
    for place, row in enumerate(rows[1 : _MOST_TITLES + 1] if rules.header != "no" else [], 1):
        above = rows[:place]
        if all(2 * sum(map(bool, line)) <= max(2, len(row)) for line in above) and rules.recognises(row):
            raise DataError(
                f"{path}: has {counted(place, 'line')} above the header {' and '.join(quoted(cell, 30) for cell in row)}, such "
                f"as the title {quoted(max(rows[0], key=len))}; delete what is above the header"
            )


def _usual_width(rows: Rows, rules: ColumnRules) -> int:
    """Return the most common number of columns; for pairs, lines with one are ignored."""
    widths = Counter(map(len, rows))
    counted = [width for width in widths if width > 1 or not rules.in_order]
    return max(counted, key=lambda size: (widths[size], size), default=min(len(widths), 1))


def _is_wider(row: Sequence[str], width: int) -> bool:
    """Return True if a row has text after the given number of columns."""
    return len(row) > width and any(map(str.strip, row[width:]))


def _is_numbered(first: Sequence[str], rest: Rows) -> bool:
    """Return True if the first line numbers the columns from 0 or 1, and the lines below are not only numbers."""
    # The first cell may be empty, above row numbers.
    cells = first if first[0] else first[1:]
    if len(cells) < 2 or not any(all(cell == str(begin + place) for place, cell in enumerate(cells)) for begin in (0, 1)):
        return False
    return not rest or any(not is_value(cell) for row in rest for cell in row if cell)


def is_header(first: Sequence[str], rest: Rows, rules: ColumnRules, path: Path) -> bool:
    """Return True if the first row names the columns and is not an example, by the rule of this module."""
    others = [row for row in rest if row != first]  # joined files repeat the header
    below = [build_column(place, name, others) for place, name in enumerate(first)]
    named = [column for column in below if column.name]
    # Columns without values, which spreadsheets export too, need no name.
    unnamed = sum(not column.name and any(column.cells) for column in below)
    if len(named) < 2 or unnamed > 1 or not all(map(_could_be_name, named)):
        return False
    if rules.recognises(first) or any(map(_has_other_type, named)):
        return True
    texts = [column for column in named if not column.content.repeats]
    if {_is_shorter(column) for column in texts} - {None} == {True}:
        shown = [" and ".join(quoted(cell, 30) for cell in row) for row in (first, others[0])]
        raise DataError(
            f"{path}: the first line could be a header or an example: {shown[0]}; the next line is {shown[1]}. Set data.header "
            "to yes if the first line names the columns, or to no if it is an example"
        )
    return False


def _could_be_name(column: Column) -> bool:
    """Return True if the first cell of a column is short, no value, no sentence, and does not occur again below."""
    cell = str(column.name)
    abbreviated = " " not in cell and cell[-1] == "." and is_metadata(cell)  # Núm.
    ends_like_text = cell[-1] in f"{SENTENCE_ENDS}," and not abbreviated
    short = len(cell) <= _LONGEST_NAME and len(cell.split()) <= _MOST_WORDS
    return (
        short and not ends_like_text and not is_value(cell) and cell.casefold() not in map(str.casefold, map(str, column.cells))
    )


def _has_other_type(column: Column) -> bool:
    """Return True if a column has values of a type that its name has not, or only its name is written like an identifier."""
    name, kind = str(column.name), column.content.kind
    if kind in ("numbers", "dates", "addresses") or (kind == "codes" and not is_code(name)):
        return True
    return bool(_IDENTIFIER.fullmatch(name) and column.cells) and not any(
        _IDENTIFIER.fullmatch(str(cell)) for cell in column.cells
    )


def _is_word(cell: str) -> bool:
    """Return True if a cell is a single word, as in a list of words or in a header without known names."""
    return cell.isalpha() or bool(_IDENTIFIER.fullmatch(cell))


def _is_shorter(column: Column) -> bool | None:
    """Return whether the first cell of a column is much shorter than the texts below; None for values that are short too."""
    cells = [str(cell) for cell in column.cells if cell]
    name, usual = str(column.name), median(map(len, cells)) if cells else 0
    if usual < (_LENGTH_OF_TEXTS // 2 if cells and is_spaceless(cells[0]) else _LENGTH_OF_TEXTS):
        return None
    return 2 * len(name) <= usual and len(name.split()) <= 3
