"""The header of a table whose values have no types, such as CSV, if it has one, and the positions of the wanted columns."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from operator import not_
from pathlib import Path
from statistics import median

from regard.errors import DataError
from regard.scripts import is_spaceless
from regard.text.column_rules import ColumnRules, is_metadata
from regard.text.columns import SAMPLE_ROWS, Column, MissingColumnError, build_column, choose_columns, is_place
from regard.text.content import MANY, is_code, is_extra, is_value
from regard.text.encodings import advise_decoding
from regard.text.report import (
    ABOVE_HEADER,
    COLUMN_NUMBERS,
    EMPTY_LINE,
    HEADER,
    TOO_FEW_COLUMNS,
    TOO_MANY_COLUMNS,
    ReadingReport,
)
from regard.text.strings import is_unicode, trim

_LONGEST_NAME = 60
_MOST_WORDS = 6
_MOST_TITLES = 3
"""Maximum number of lines above a header."""
_DAMAGED = 0.1
"""Minimum share of undecodable rows for which an error about columns names the encoding as the probable cause."""
_ROWS_TO_COMPARE = 10
"""Minimum number of rows for telling a header from data by the length of cells and by values that are repeated."""
_IDENTIFIER = re.compile(r"[A-Za-z]+(_[A-Za-z0-9]+)+|[a-z]+([A-Z][a-z0-9]+)+")

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Layout:
    """Layout of a table: positions of the wanted columns, lines above the data, and valid numbers of columns."""

    places: tuple[int, int]
    names: tuple[str, ...]
    """Names of the columns in reports."""
    above: tuple[str, ...]
    """Reasons for skipping the first lines that are not blank, one for each line: a title, the header, or column numbers."""
    least: int
    """Minimum number of columns of a line."""
    width: int
    """Number of columns; a line with text after them has too many."""
    extras: bool
    """Whether numbers, dates, addresses and licences after the last column are ignored."""
    header: tuple[str, ...] = ()
    """Cells of the header, stripped; empty without a header. Joined files contain it again further down."""
    advice: str = ""
    """Advice about lines with too many columns; empty if there are hardly any."""

    def select(
        self, rows: list[list[str]], numbers: Sequence[int], report: ReadingReport, *, commas: bool = False
    ) -> tuple[list[list[str]], Sequence[int]]:
        """Return the values of the two columns and the line numbers, without headers and rows of a wrong width.

        Args:
            rows: Rows below the lines of `above`.
            numbers: Their line numbers.
            report: Report, which counts the skipped rows.
            commas: As for `is_wider`.
        """
        rows, numbers = skip_headers(rows, numbers, self.header, report)
        sizes = set(map(len, rows))
        if sizes and (min(sizes) < self.least or max(sizes) > self.width):
            reasons = [self._find_fault(row, commas) for row in rows]
            for number, reason in zip(numbers, reasons, strict=True):
                if reason:
                    report.skip(reason, number)
            kept = list(map(not_, reasons))
            rows, numbers = list(compress(rows, kept)), list(compress(numbers, kept))
        return [[row[place] for row in rows] for place in self.places], numbers

    def _find_fault(self, row: Sequence[str], commas: bool) -> str:
        if len(row) < self.least:
            return TOO_FEW_COLUMNS if any(cell.strip() for cell in row) else EMPTY_LINE
        wide = len(row) > self.width and is_wider(row, self.width, extras=self.extras, commas=commas)
        return TOO_MANY_COLUMNS if wide else ""


def skip_headers(
    rows: list[list[str]], numbers: Sequence[int], header: tuple[str, ...], report: ReadingReport
) -> tuple[list[list[str]], Sequence[int]]:
    """Return the rows and their line numbers without rows that equal the header, which files that were joined repeat."""
    if not header:
        return rows, numbers
    longest = max(header, key=len)
    place = header.index(longest)
    # Stripping all cells takes long, so the longest name is looked for first.
    kept = [len(row) != len(header) or longest not in row[place] or tuple(map(trim, row)) != header for row in rows]
    for number in compress(numbers, map(not_, kept)):
        report.skip(HEADER, number)
    return list(compress(rows, kept)), list(compress(numbers, kept))


def find_layout(rows: Rows, rules: ColumnRules, path: Path) -> Layout:
    """Find the layout of a file whose values have no types, such as CSV, from its first rows.

    Args:
        rows: Some rows from the start of the file.
        rules: The columns to look for.
        path: The file.

    Raises:
        DataError: If there is only one column; if the settings name a column that does not exist, or give names although
            `data.header` is `no`; if most lines have more columns than the header; or if it is not clear which columns are
            wanted. If the first row or a tenth of the rows cannot be decoded, the message names the probable encoding.
    """
    try:
        return _find_layout(_strip(rows)[: SAMPLE_ROWS + 1], rules, path)
    except DataError as error:
        damaged = [any("\0" in cell or not is_unicode(cell) for cell in row) for row in _strip(rows)]
        if not any(damaged[:1]) and sum(damaged) < max(_DAMAGED * len(damaged), 1):
            raise
        form = "UTF-8" if rules.encoding == "auto" else rules.encoding
        advice, fault = advise_decoding([path], rules.encoding), str(error).removeprefix(f"{path}: ")
        raise type(error)(
            f"{path}: is probably not in {form}. {advice} Reading it as {form} gives this error: {fault}"
        ) from None


def _find_layout(rows: Rows, rules: ColumnRules, path: Path) -> Layout:
    if _usual_width(rows, rules) < 2:
        start = next((row[0] for row in rows), "")[:60]
        raise DataError(
            f"{path}: has one column (it starts with {start!r}), expected {rules.what} in two or more columns; "
            f"{rules.one_column}, or set data.format"
        )
    titles = 0 if rules.header == "no" else _count_titles(rows, rules)
    first, rest = rows[titles], rows[titles + 1 :]
    given = [name for name in rules.given() if name]
    named = any(not is_place(name) for name in given)
    if named and rules.header == "no":
        verb = "give" if " and " in rules.settings else "gives"
        raise DataError(f"{path}: {rules.settings} {verb} names ({', '.join(given)}), but data.header is 'no'; give numbers")
    numbered = len(given) == 2 and not named
    looks_named = rules.header == "auto" and is_header(first, rest, rules)
    names: Sequence[str] | None = None
    above: tuple[str, ...] = ()
    data: Rows
    if rules.header == "yes" or named or looks_named:
        data = [row for row in rest if row != first]
        names, above = _fit_header(first, data, rules, path, numbered=numbered), (*[ABOVE_HEADER] * titles, HEADER)
    else:
        above = (COLUMN_NUMBERS,) if rules.header == "auto" and _is_numbered(first, rest) else ()
        data = rest if above else [first, *rest]
    # Columns that are given by number may be read from lines with any number of further columns.
    free = numbered and not rules.common_width
    width = len(names) if names is not None else max(map(len, data), default=0) if free else _usual_width(data, rules)
    try:
        places = choose_columns(names, [[*row[:width], *[""] * (width - len(row))] for row in data], rules, path)
    except MissingColumnError as error:
        if names is None or rules.header == "yes" or not named or looks_named or is_header(first, rest, rules):
            raise
        raise MissingColumnError(
            f"{error}. Its first line does not look like a header; without one, columns have numbers, counted from 0: "
            f"{rules.example(['0', '1'])}"
        ) from None
    # If columns are given by number because the header is too short, its names may belong to other columns.
    known = names is not None and not (numbered and len(names) > len(first))
    shown = tuple((names[place] if names and known else "") or str(place) for place in places)
    limit = sys.maxsize if free else width
    least, extras = limit if rules.common_width else max(places) + 1, not rules.common_width
    advice = ""
    if 20 * _count_wider(data, limit, extras=extras).total() > len(data):
        further = f", or further columns; to read them, give two columns by number with {rules.settings}" if extras else ""
        advice = f"Lines with too many columns have unquoted separators in the text{further}."
    elif names is None and rules.header == "auto" and not above and _could_name_columns(first):
        advice = "Line 1 is read as an example. If it names the columns, set data.header to yes."
    return Layout(places, shown, above, least, limit, extras, tuple(first) if names is not None else (), advice)


def _strip(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return the rows that are not blank, with stripped cells."""
    stripped = (list(map(trim, row)) for row in rows)
    return [row for row in stripped if any(row)]


def _usual_width(rows: Rows, rules: ColumnRules) -> int:
    """Return the most common number of columns. Unless lines need all columns (`common_width`), lines with one are ignored."""
    widths = Counter(map(len, rows))
    counted = list(widths) if rules.common_width else [width for width in widths if width > 1]
    return max(counted, key=lambda size: (widths[size], size), default=min(len(widths), 1))


def _count_titles(rows: Rows, rules: ColumnRules) -> int:
    """Return the number of lines such as a title above the header, in which most cells are empty; 0 if no header follows."""
    width = _usual_width(rows, rules)
    for place, row in enumerate(rows[: _MOST_TITLES + 1]):
        if sum(map(bool, row)) > max(1, width // 2):
            headed = place > 0 and rules.recognises(row) and is_header(row, rows[place + 1 :], rules)
            return place if headed else 0
    return 0


def _fit_header(first: Sequence[str], rest: Rows, rules: ColumnRules, path: Path, *, numbered: bool) -> Sequence[str]:
    """Return the names of the columns. If the settings give columns by number, columns that the header lacks get empty names.

    Raises:
        DataError: If most lines have more columns than the header, and the settings do not give columns by number.
    """
    wider = _count_wider(rest, len(first), extras=not (rules.common_width or numbered or _is_shifted(first, rest)))
    if len(first) < 2 or 2 * wider.total() <= len(rest):
        return first
    width, count = wider.most_common(1)[0]
    if numbered:
        return [*first, *[""] * (width - len(first))]
    held = width if 2 * count > len(rest) else "more"
    raise DataError(
        f"{path}: the header names {len(first)} columns, but most lines have {held}, probably because of unquoted separators "
        "in the text or because of row names (in R, write with row.names=FALSE). Fix the file, or give the columns by number, "
        f"counted from 0, with {rules.settings}"
    )


def _is_shifted(names: Sequence[str], rows: Rows) -> bool:
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


def _count_wider(rows: Rows, width: int, *, extras: bool) -> Counter[int]:
    """Count the rows with text after `width` columns, by the position of their last cell that is not empty, from 1."""
    wider = (row for row in rows if is_wider(row, width, extras=extras))
    return Counter(max(place for place, cell in enumerate(row) if cell) + 1 for row in wider)


def _is_numbered(first: Sequence[str], rest: Rows) -> bool:
    """Return True if the first line numbers the columns from 0 or 1, and the lines below are not only numbers.

    The first cell may be empty, above row numbers.
    """
    cells = first if first[0] else first[1:]
    if len(cells) < 2 or not any(all(cell == str(begin + place) for place, cell in enumerate(cells)) for begin in (0, 1)):
        return False
    return not rest or any(not is_value(cell) for row in rest for cell in row if cell)


def is_header(first: Sequence[str], rest: Rows, rules: ColumnRules) -> bool:
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
        rules: The columns to look for.
    """
    filled = [cell for cell in first if cell]
    if len(filled) < 2 or not all(map(_could_be_name, filled)):
        return False
    others = [row for row in rest if row != first]
    below = [build_column(place, name, others) for place, name in enumerate(first)]
    # Columns without values, which spreadsheets export too, need no name.
    if sum(not column.name and any(column.cells) for column in below) > 1:
        return False
    named = [column for column in below if column.name]
    if any(str(column.name).casefold() in {str(cell).casefold() for cell in column.cells} for column in named):
        return False
    return (
        rules.recognises(first)
        or any(column.content.kind in ("numbers", "dates", "addresses") for column in named)
        or any(column.content.kind == "codes" and not is_code(str(column.name)) for column in named)
        or any(map(_is_identifier, named))
        or (len(others) == len(rest) and _differs(named))
    )


def _could_name_columns(first: Sequence[str]) -> bool:
    """Return True if the first row consists of single words, as in a list of words or in a header without known names."""
    return all(cell.isalpha() or _IDENTIFIER.fullmatch(cell) for cell in first)


def _could_be_name(cell: str) -> bool:
    abbreviated = cell.endswith(("no.", "No.", "Nr.")) or (" " not in cell and cell[-1] == "." and is_metadata(cell))  # Núm.
    ends_like_text = cell[-1] in ".!?…。！？," and not abbreviated
    return len(cell) <= _LONGEST_NAME and len(cell.split()) <= _MOST_WORDS and not is_value(cell) and not ends_like_text


def _is_identifier(column: Column) -> bool:
    """Return True if a name is written like an identifier in a program, and no value below it is."""
    cells = [str(cell) for cell in column.cells]
    return bool(_IDENTIFIER.fullmatch(str(column.name)) and cells) and not any(map(_IDENTIFIER.fullmatch, cells))


def _differs(columns: Sequence[Column]) -> bool:
    """Return True if at least one column can be compared, and the first row differs from the rows below in all such columns."""
    verdicts = []
    for column in columns:
        cells = [str(cell) for cell in column.cells if cell]
        if len(cells) < _ROWS_TO_COMPARE:
            continue
        if column.content.repeats:
            # The cell is a name if every value below occurs at least twice. If one occurs once, few rows prove nothing.
            if len(cells) >= MANY or min(Counter(cells).values()) > 1:
                verdicts.append(min(Counter(cells).values()) > 1)
            continue
        usual, own = median(map(_count_words, cells)), _count_words(str(column.name))
        verdicts.append(usual >= 4 and own * 2 <= usual and own <= 3)
    return bool(verdicts) and all(verdicts)


def _count_words(text: str) -> int:
    """Return the number of words; in scripts without spaces, an estimate from the number of letters."""
    spaceless = [letter for letter in text if is_spaceless(letter)] if is_spaceless(text) else []
    thai = sum("\u0e00" <= letter <= "\u0e7f" for letter in spaceless)
    return max(len(text.split()), -(-(len(spaceless) - thai) // 2) + -(-thai // 5))  # Thai words have about five characters
