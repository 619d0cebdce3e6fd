"""The header of a table, if it has one, and the positions of the wanted columns."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from regard.errors import DataError
from regard.text.files.columns import (
    SAMPLE_ROWS,
    Column,
    MissingColumnError,
    TwoColumns,
    build_column,
    choose_columns,
    is_place,
)
from regard.text.files.content import MANY, is_code, is_mark
from regard.text.files.names import is_metadata, is_unspaced
from regard.text.files.report import COLUMN_NUMBERS, HEADER

_LONGEST_NAME = 60
_MOST_WORDS = 6
_ROWS_TO_COMPARE = 10
"""Minimum number of rows for telling a header from data by the length of cells and by values that are repeated."""
_IDENTIFIER = re.compile(r"[A-Za-z]+(_[A-Za-z0-9]+)+|[a-z]+([A-Z][a-z0-9]+)+")


@dataclass(frozen=True)
class Layout:
    """Positions of the wanted columns in a line."""

    places: tuple[int, ...]
    names: tuple[str, ...]
    """Names of the columns in reports."""
    first: str | None
    """Reason why the first line is not data; None if it is data."""
    width: int = 0
    """Number of columns that every line must have; 0 if it only needs the columns in `places`."""


def find_layout(rows: Sequence[Sequence[str]], wanted: TwoColumns, path: object) -> Layout:
    """Find the layout of a file whose values have no types, such as CSV, from its first rows.

    Args:
        rows: Some rows from the start of the file.
        wanted: The columns to look for.
        path: The file, for messages.

    Raises:
        DataError: If there is only one column, the settings name a column that does not exist, or the choice is not clear.
    """
    filled = [row for row in rows if any(cell.strip() for cell in row)][: SAMPLE_ROWS + 1]
    widths = Counter(map(len, filled))
    width = max(widths, key=lambda size: (widths[size], size), default=0) if wanted.common_width else max(widths, default=0)
    if width < 2:
        start = filled[0][0].strip()[:60] if filled else ""
        raise DataError(
            f"{path}: has one column (it starts with {start!r}), expected {wanted.what} separated by a tab; "
            f"{wanted.one_column}, or set data.format"
        )
    first, rest = [cell.strip() for cell in filled[0]], [[cell.strip() for cell in row] for row in filled[1:]]
    given = [name for name in wanted.given() if name]
    named = any(not is_place(name) for name in given)
    if named and wanted.header == "no":
        verb = "give" if " and " in wanted.settings else "gives"
        raise DataError(f"{path}: {wanted.settings} {verb} names ({', '.join(given)}), but data.header is 'no'; give numbers")
    if wanted.header == "yes" or (wanted.header == "auto" and (named or is_header(first, rest, wanted))):
        try:
            places = choose_columns(first, rest, wanted, path)
        except MissingColumnError as error:
            if wanted.header == "yes" or not named or is_header(first, rest, wanted):
                raise
            raise MissingColumnError(
                f"{error}. Its first line does not look like a header; without one, columns have numbers, counted from 0: "
                f"{wanted.example(['0', '1'])}"
            ) from None
        names = tuple(first[place] or str(place) for place in places)
        return Layout(places, names, HEADER, max(width, len(first)) if wanted.common_width else 0)
    numbered = wanted.header == "auto" and _is_numbered(first, rest)
    padded = [*first, *[""] * (width - len(first))]
    places = choose_columns(None, rest if numbered else [padded, *rest], wanted, path)
    return Layout(places, tuple(map(str, places)), COLUMN_NUMBERS if numbered else None, width if wanted.common_width else 0)


def _is_numbered(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Return True if the first line numbers the columns from 0 or 1, and the lines below are not only numbers."""
    if len(first) < 2 or not any(all(cell == str(begin + place) for place, cell in enumerate(first)) for begin in (0, 1)):
        return False
    return not rest or any(not is_mark(cell) for row in rest for cell in row if cell)


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]], wanted: TwoColumns) -> bool:
    """Return True if the first row names the columns and is not an example.

    It is a header if its cells could be names, no cell is repeated further down in its column, and one of these is true:

    - The cells are names that columns usually have.
    - A column holds numbers, dates or addresses below the first row, but not in it.
    - A cell is written like an identifier.
    - Every cell differs from the values of its column: it is not one of the labels, or much shorter than the texts.

    Args:
        first: The first row that is not blank, stripped.
        rest: Rows below, stripped.
        wanted: The columns to look for.
    """
    filled = [cell for cell in first if cell]
    if len(filled) < 2 or not all(map(_could_be_name, filled)):
        return False
    below = [build_column(place, name, rest) for place, name in enumerate(first)]
    if sum(not column.name and any(column.cells) for column in below) > 1:  # spreadsheets export empty columns too
        return False
    if any(column.name and column.name.casefold() in {str(cell).casefold() for cell in column.cells} for column in below):
        return False
    return (
        wanted.recognises(first)
        or any(column.name and column.content.kind in ("numbers", "dates", "addresses") for column in below)
        or any(column.name and column.content.kind == "codes" and not is_code(column.name) for column in below)
        or any(map(_is_identifier, below))
        or _differs(below)
    )


def _could_be_name(cell: str) -> bool:
    abbreviated = cell.endswith(("no.", "No.", "Nr.")) or (" " not in cell and cell[-1] == "." and is_metadata(cell))  # Núm.
    ends_like_text = cell[-1] in ".!?…。！？," and not abbreviated
    return len(cell) <= _LONGEST_NAME and len(cell.split()) <= _MOST_WORDS and not is_mark(cell) and not ends_like_text


def _is_identifier(column: Column) -> bool:
    """Return True if a name is written like an identifier in a program, and no value below it is."""
    return (
        bool(column.name and _IDENTIFIER.fullmatch(column.name))
        and bool(column.cells)
        and not any(_IDENTIFIER.fullmatch(str(cell)) for cell in column.cells)
    )


def _differs(columns: Sequence[Column]) -> bool:
    """Return True if at least one column can be compared, and the first row differs from the rows below in all such columns."""
    verdicts = []
    for column in columns:
        cells = [str(cell) for cell in column.cells if cell]
        if len(cells) < _ROWS_TO_COMPARE or not column.name:
            continue
        if column.content.repeats:
            # Every value below the first row is repeated, and the first one is not.
            if len(cells) >= MANY or min(Counter(cells).values()) > 1:
                verdicts.append(min(Counter(cells).values()) > 1)
            continue
        usual = median(map(_length, cells))
        verdicts.append(usual >= 4 and _length(column.name) * 2 <= usual and _length(column.name) <= 3)
    return bool(verdicts) and all(verdicts)


def _length(text: str) -> int:
    unspaced = sum(map(is_unspaced, text)) if not text.isascii() else 0
    return max(len(text.split()), -(-unspaced // 2))
