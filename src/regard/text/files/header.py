"""The header of a table, if it has one, and the positions of the wanted columns."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from regard.errors import DataError
from regard.text.files.advise import advise_decoding
from regard.text.files.columns import (
    SAMPLE_ROWS,
    Column,
    MissingColumnError,
    TwoColumns,
    build_column,
    choose_columns,
    is_place,
    sample_rows,
)
from regard.text.files.content import MANY, is_code, is_extra, is_mark
from regard.text.files.names import is_metadata, is_unspaced
from regard.text.files.report import ABOVE_HEADER, COLUMN_NUMBERS, HEADER
from regard.text.files.strings import is_unicode, trim

_LONGEST_NAME = 60
_MOST_WORDS = 6
_MOST_TITLES = 3
"""Maximum number of lines above a header."""
_DAMAGED = 0.1
"""Minimum share of undecodable rows for which an error about columns names the encoding as the probable cause."""
_ROWS_TO_COMPARE = 10
"""Minimum number of rows for telling a header from data by the length of cells and by values that are repeated."""
_IDENTIFIER = re.compile(r"[A-Za-z]+(_[A-Za-z0-9]+)+|[a-z]+([A-Z][a-z0-9]+)+")


@dataclass(frozen=True)
class Layout:
    """Layout of a table: positions of the wanted columns, lines above the data, and valid numbers of columns."""

    places: tuple[int, ...]
    names: tuple[str, ...]
    """Names of the columns in reports."""
    above: tuple[str, ...]
    """Reasons for skipping the first lines that are not blank, one for each line: a title, the header, or column numbers."""
    least: int
    """Minimum number of columns of a line."""
    width: int
    """Number of columns; a line with text after them has too many."""
    header: tuple[str, ...] = ()
    """Cells of the header, stripped; empty without a header. Joined files contain it again further down."""
    advice: str = ""
    """Advice about lines with too many columns; empty if there are hardly any."""


def find_layout(
    rows: Sequence[Sequence[str]], wanted: TwoColumns, path: Path, sample: Callable[[], Sequence[Sequence[str]]]
) -> Layout:
    """Find the layout of a file whose values have no types, such as CSV, from its first rows.

    Args:
        rows: Some rows from the start of the file.
        wanted: The columns to look for.
        path: The file.
        sample: Function that returns rows of the whole file. It is called only if a column that could be chosen is constant in
            the first rows.

    Raises:
        DataError: If there is only one column; if the settings name a column that does not exist, or give names although
            `data.header` is `no`; if most lines have more columns than the header; or if it is not clear which columns are
            wanted. If the first row or a tenth of the rows cannot be decoded, the message names the probable encoding.
    """
    try:
        return _find_layout(rows, wanted, path, sample)
    except DataError as error:
        damaged = [any("\0" in cell or not is_unicode(cell) for cell in row) for row in _strip(rows)]
        if not any(damaged[:1]) and sum(damaged) < max(_DAMAGED * len(damaged), 1):
            raise
        form = "UTF-8" if wanted.encoding == "auto" else wanted.encoding
        advice, fault = advise_decoding([path], wanted.encoding), str(error).removeprefix(f"{path}: ")
        raise type(error)(
            f"{path}: is probably not in {form}. {advice} Reading it as {form} gives this error: {fault}"
        ) from None


def _find_layout(
    rows: Sequence[Sequence[str]], wanted: TwoColumns, path: Path, sample: Callable[[], Sequence[Sequence[str]]]
) -> Layout:
    filled = _strip(rows)[: SAMPLE_ROWS + 1]
    if _usual_width(filled, wanted) < 2:
        start = next((row[0] for row in filled), "")[:60]
        raise DataError(
            f"{path}: has one column (it starts with {start!r}), expected {wanted.what} in two or more "
            f"columns; {wanted.one_column}, or set data.format"
        )
    titles = 0 if wanted.header == "no" else _count_titles(filled, wanted)
    first, rest = filled[titles], filled[titles + 1 :]
    below = [row for row in rest if row != first]
    given = [name for name in wanted.given() if name]
    named = any(not is_place(name) for name in given)
    if named and wanted.header == "no":
        verb = "give" if " and " in wanted.settings else "gives"
        raise DataError(f"{path}: {wanted.settings} {verb} names ({', '.join(given)}), but data.header is 'no'; give numbers")
    numbered = len(given) == 2 and not named
    # Columns that are given by number may be read from lines with any number of further columns.
    free = numbered and not wanted.common_width
    further = (
        "" if wanted.common_width else f", or further columns; to read them, give two columns by number with {wanted.settings}"
    )
    if wanted.header == "yes" or (wanted.header == "auto" and (named or is_header(first, rest, wanted))):
        names = _fit_header(first, below, wanted, path, numbered=numbered)
        try:
            judged = sample_rows(below, len(names), wanted, lambda: _find_same(sample(), first, len(names)), names)
            places = choose_columns(names, judged, wanted, path)
        except MissingColumnError as error:
            if wanted.header == "yes" or not named or is_header(first, rest, wanted):
                raise
            raise MissingColumnError(
                f"{error}. Its first line does not look like a header; without one, columns have numbers, counted from 0: "
                f"{wanted.example(['0', '1'])}"
            ) from None
        # If columns are given by number because the header is too short, its names may belong to other columns.
        shown = tuple(map(str, places)) if numbered and len(names) > len(first) else tuple(names[i] or str(i) for i in places)
        width = sys.maxsize if free else len(names)
        least = width if wanted.common_width else max(places) + 1
        advice = _advise_on_width(below, width, wanted, further)
        return Layout(places, shown, (*[ABOVE_HEADER] * titles, HEADER), least, width, tuple(first), advice)
    above = (COLUMN_NUMBERS,) if wanted.header == "auto" and _is_numbered(first, rest) else ()
    data = rest if above else [first, *rest]
    width = max(map(len, data), default=0) if free else _usual_width(data, wanted)
    judged = [row[:width] for row in sample_rows(data, width, wanted, lambda: _find_same(sample(), first, width))]
    if judged:
        judged[0] = [*judged[0], *[""] * (width - len(judged[0]))]
    places = choose_columns(None, judged, wanted, path)
    least = width if wanted.common_width else max(places) + 1
    advice = _advise_on_width(data, width, wanted, further)
    width = sys.maxsize if free else width
    return Layout(places, tuple(map(str, places)), above, least, width, advice=advice)


def _strip(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return the rows that are not blank, with stripped cells."""
    stripped = (list(map(trim, row)) for row in rows)
    return [row for row in stripped if any(row)]


def _usual_width(rows: Sequence[Sequence[str]], wanted: TwoColumns) -> int:
    """Return the most common number of columns. Unless lines need all columns (`common_width`), lines with one are ignored."""
    widths = Counter(map(len, rows))
    counted = list(widths) if wanted.common_width else [width for width in widths if width > 1]
    return max(counted, key=lambda size: (widths[size], size), default=min(len(widths), 1))


def _count_titles(rows: Sequence[Sequence[str]], wanted: TwoColumns) -> int:
    """Return the number of lines such as a title above the header, in which most cells are empty; 0 if no header follows."""
    width = _usual_width(rows, wanted)
    for place, row in enumerate(rows[: _MOST_TITLES + 1]):
        if sum(map(bool, row)) > max(1, width // 2):
            headed = place > 0 and wanted.recognises(row) and is_header(row, rows[place + 1 :], wanted)
            return place if headed else 0
    return 0


def _fit_header(
    first: Sequence[str], rest: Sequence[Sequence[str]], wanted: TwoColumns, path: Path, *, numbered: bool
) -> Sequence[str]:
    """Return the names of the columns. If the settings give columns by number, columns that the header lacks get empty names.

    Raises:
        DataError: If most lines have more columns than the header, and the settings do not give columns by number.
    """
    wider = _count_wider(rest, len(first), extras=not (wanted.common_width or numbered or _is_shifted(first, rest)))
    if len(first) < 2 or 2 * wider.total() <= len(rest):
        return first
    width, count = wider.most_common(1)[0]
    if numbered:
        return [*first, *[""] * (width - len(first))]
    held = width if 2 * count > len(rest) else "more"
    raise DataError(
        f"{path}: the header names {len(first)} columns, but most lines have {held}, probably because of unquoted separators "
        "in the text or because of row names (in R, write with row.names=FALSE). Fix the file, or give the columns by number, "
        f"counted from 0, with {wanted.settings}"
    )


def _is_shifted(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return True if row names seem to shift the columns: the first name that is not metadata is above numbers or codes."""
    place = next((place for place, name in enumerate(names) if not is_metadata(name)), None)
    return place is not None and build_column(place, None, rows).content.kind in ("numbers", "codes")


def is_wider(row: Sequence[str], width: int, *, extras: bool, commas: bool = False) -> bool:
    """Return True if a row has text after the given number of columns.

    Args:
        row: The cells of the row.
        width: Number of columns.
        extras: If True, numbers, dates, web addresses and licences are not text.
        commas: If True, commas separate the cells. Then a cell that begins with a digit is text if the cell before it ends with
            one, because both may be one number in the text, such as `3,50`.
    """
    return any(
        (cell.strip() and not (extras and is_extra(cell))) or (commas and before[-1:].isdigit() and cell[:1].isdigit())
        for before, cell in pairwise(row[width - 1 :])
    )


def _count_wider(rows: Sequence[Sequence[str]], width: int, *, extras: bool) -> Counter[int]:
    """Count the rows with text after `width` columns, by the position of their last cell that is not empty, from 1."""
    wider = (row for row in rows if is_wider(row, width, extras=extras))
    return Counter(max(place for place, cell in enumerate(row) if cell) + 1 for row in wider)


def _advise_on_width(rows: Sequence[Sequence[str]], width: int, wanted: TwoColumns, further: str) -> str:
    if 20 * _count_wider(rows, width, extras=not wanted.common_width).total() <= len(rows):
        return ""
    return f"Lines with too many columns have unquoted separators in the text{further}."


def _find_same(rows: Iterable[Sequence[str]], header: Sequence[str], width: int) -> list[list[str]]:
    """Return the rows with `width` columns, without the header. In other rows, values may be in the wrong columns."""
    return [row for row in _strip(rows) if len(row) == width and row != header]


def _is_numbered(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Return True if the first line numbers the columns from 0 or 1, and the lines below are not only numbers.

    The first cell may be empty, above row numbers.
    """
    cells = first if first[0] else first[1:]
    if len(cells) < 2 or not any(all(cell == str(begin + place) for place, cell in enumerate(cells)) for begin in (0, 1)):
        return False
    return not rest or any(not is_mark(cell) for row in rest for cell in row if cell)


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]], wanted: TwoColumns) -> bool:
    """Return True if the first row names the columns and is not an example.

    It is a header if at least two cells are filled, all filled cells could be names, no cell is repeated further down in its
    column (except in rows that equal the first one, as in joined files), at most one column with values has an empty
    cell in the first row, and one of these is true:

    - The cells are names that columns usually have.
    - A column holds numbers, dates, addresses or codes below the first row, but not in it.
    - A cell is written like an identifier (`review_text`), and no cell below it is.
    - Every cell that can be compared differs from the cells below it: it is the only one that is not repeated, or it is much
      shorter than the texts. This does not count if rows equal the first one, because these may be duplicates of an example.

    Args:
        first: The first row that is not blank, stripped.
        rest: Rows below, stripped.
        wanted: The columns to look for.
    """
    filled = [cell for cell in first if cell]
    if len(filled) < 2 or not all(map(_could_be_name, filled)):
        return False
    others = [row for row in rest if row != first]
    below = [build_column(place, name, others) for place, name in enumerate(first)]
    # Columns without values, which spreadsheets export too, need no name.
    if sum(not column.name and any(column.cells) for column in below) > 1:
        return False
    if any(column.name and column.name.casefold() in {str(cell).casefold() for cell in column.cells} for column in below):
        return False
    return (
        wanted.recognises(first)
        or any(column.name and column.content.kind in ("numbers", "dates", "addresses") for column in below)
        or any(column.name and column.content.kind == "codes" and not is_code(column.name) for column in below)
        or any(map(_is_identifier, below))
        or (len(others) == len(rest) and _differs(below))
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
            # The cell is a name if every value below occurs at least twice. If one occurs once, few rows prove nothing.
            if len(cells) >= MANY or min(Counter(cells).values()) > 1:
                verdicts.append(min(Counter(cells).values()) > 1)
            continue
        usual = median(map(_length, cells))
        verdicts.append(usual >= 4 and _length(column.name) * 2 <= usual and _length(column.name) <= 3)
    return bool(verdicts) and all(verdicts)


def _length(text: str) -> int:
    """Return the number of words; in scripts without spaces, an estimate from the number of letters."""
    if text.isascii():
        return len(text.split())
    thai = sum("\u0e00" <= letter <= "\u0e7f" for letter in text)
    unspaced = sum(map(is_unspaced, text)) - thai
    return max(len(text.split()), -(-unspaced // 2) + -(-thai // 5))  # Thai words have about five characters
