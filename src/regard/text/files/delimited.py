"""Columns of tab-separated and comma-separated files.

Because sentences often contain quotation marks, tab-separated lines are split at every tab, and quotation marks are part of the
text. Only in CSV files can cells be quoted, with strict rules.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, islice
from operator import not_
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.files.columns import TwoColumns, pick_evenly
from regard.text.files.header import Layout, find_layout, is_wider
from regard.text.files.opening import CHUNK_CHARACTERS, LONGEST_SIDE, OVER_LONG_LINE, line_blocks
from regard.text.files.report import EMPTY_LINE, HEADER, OVER_LONG, TOO_FEW_COLUMNS, TOO_MANY_COLUMNS, ReadingReport
from regard.text.files.strings import quoted, trim

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
"""Minimum share of the first rows that a separator must split into the same number of columns."""

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

    def sample() -> list[list[str]]:
        lines = (line for _, block in line_blocks(path, wanted.encoding) for line in block)
        return [line.split(separator) for line in pick_evenly(line for line in lines if len(line) <= LONGEST_SIDE)]

    layout: Layout | None = None
    for first, lines in line_blocks(path, wanted.encoding):
        report.read += len(lines)
        if lines[0] is OVER_LONG_LINE:  # such a line forms its own block
            report.skip(OVER_LONG, first)
            continue
        rows = [line.split(separator) for line in lines]
        numbers: Sequence[int] = range(first, first + len(rows))
        if layout is None:
            layout = find_layout(rows[:HEAD_ROWS], wanted, path, sample)
            report.columns, report.advice = list(layout.names), layout.advice
            head = lines[:HEAD_ROWS]
            for reason in layout.above:
                stray = next(place for place, row in enumerate(rows) if any(cell.strip() for cell in row))
                report.skip(reason, numbers[stray])
                rows.pop(stray)
                head.pop(stray)
                numbers = [*numbers[:stray], *numbers[stray + 1 :]]
            if separator == "\t" and (remedy := _find_remedy(head, rows[: len(head)], layout)):
                report.advice = f"The quotation marks around cells of {path.name} are read as text; to remove them, {remedy}."
        rows, numbers = skip_headers(rows, numbers, layout.header, report)
        sizes = set(map(len, rows))
        if sizes and (min(sizes) < layout.least or max(sizes) > layout.width):
            rows, numbers = _fitting(rows, numbers, layout, wanted, report)
        yield [[row[place] for row in rows] for place in layout.places], numbers


def _find_remedy(lines: Sequence[str], rows: Sequence[Sequence[str]], layout: Layout) -> str:
    """Return advice on how to remove the quotation marks around tab-separated cells; an empty text if no advice fits.

    Advice is given if at least half of the cells of a wanted column begin and end with a quotation mark, or if a quoted cell
    seems to have a line break: a line ends in an open quote, and this line or the next one has too few columns. In the second
    case, there is only advice if the lines can be read as CSV.
    """
    columns = ([row[place].strip() for row in rows if place < len(row)] for place in layout.places)
    quoted = any(2 * sum(cell[:1] == cell[-1:] == '"' for cell in cells) >= len(cells) > 0 for cells in columns)
    following = chain(rows[1:], [[""] * layout.least])
    broken = any(
        row[-1].startswith('"') and row[-1].count('"') % 2 and min(len(row), len(after)) < layout.least
        for row, after in zip(rows, following, strict=False)
    )
    if not quoted and not broken:
        return ""
    read = _read_head(list(map(_end_line, lines)), "\t", strict=True)
    fitting = (layout.least, min(layout.width, max(map(len, rows))))
    if read is not None and _count_between(read.rows, *fitting) >= _count_between(rows, *fitting):
        return "set data.format to csv"
    return "write the file without them" if quoted else ""


def _count_between(rows: Iterable[Sequence[str]], least: int, most: int) -> int:
    return sum(least <= len(row) <= most for row in rows)


def read_csv(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read rows of a CSV file, in which cells can be quoted.

    The separator is a comma, a semicolon or a tab, or the character that a first line such as `sep=|` names.

    Raises:
        DataError: If a quote is not closed, text follows a closing quote, a line is too long, or it is not clear whether commas
            or semicolons separate the columns; else as for `read_tsv`.
    """
    report.unit = "rows"
    numbered = _csv_rows(path, wanted.encoding, report)
    head = _take(numbered, HEAD_ROWS)
    layout = find_layout([row for _, row in head] or [[]], wanted, path, lambda: _sample_csv(path, wanted.encoding))
    report.columns, report.advice = list(layout.names), layout.advice
    rows: Iterator[NumberedRow] = chain(head, numbered)
    if layout.above:
        rows = _without_first(rows, layout.above, report)
    commas = report.form == _SEPARATED[","]
    while chunk := _take(rows, CHUNK_ROWS):
        given = skip_headers([row for _, row in chunk], [number for number, _ in chunk], layout.header, report)
        rows_kept, numbers = _fitting(*given, layout, wanted, report, commas=commas)
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
    rows: Sequence[list[str]],
    numbers: Sequence[int],
    layout: Layout,
    wanted: TwoColumns,
    report: ReadingReport,
    *,
    commas: bool = False,
) -> tuple[list[list[str]], list[int]]:
    """Return the rows with a valid number of columns and their line numbers; skip other rows. For `commas`, see `is_wider`."""
    kept, places = [], []
    extras = not wanted.common_width
    for row, number in zip(rows, numbers, strict=True):
        if len(row) >= layout.least:
            if len(row) > layout.width and is_wider(row, layout.width, extras=extras, commas=commas):
                report.skip(TOO_MANY_COLUMNS, number)
                continue
            kept.append(row)
            places.append(number)
        else:
            report.skip(TOO_FEW_COLUMNS if any(cell.strip() for cell in row) else EMPTY_LINE, number)
    return kept, places


def _without_first(rows: Iterable[NumberedRow], reasons: Sequence[str], report: ReadingReport) -> Iterator[NumberedRow]:
    """Yield all rows except the first ones that are not blank: for each reason, one of these is skipped."""
    waiting = list(reasons)
    for number, row in rows:
        if waiting and any(cell.strip() for cell in row):
            report.skip(waiting.pop(0), number)
        else:
            yield number, row


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


def _sample_csv(path: Path, encoding: str) -> list[list[str]]:
    rows = (row for _, row in _csv_rows(path, encoding, ReadingReport()))
    return pick_evenly(row for row in rows if sum(map(len, row)) <= LONGEST_SIDE)


def _csv_rows(path: Path, encoding: str, report: ReadingReport) -> Iterator[NumberedRow]:
    """Yield each row with the number of the line on which it starts."""
    lines = _csv_lines(path, encoding)
    head: list[str] = []
    size = 0
    while len(head) < HEAD_ROWS and size < CHUNK_CHARACTERS and (line := next(lines, None)) is not None:
        head.append(line)
        size += len(line)
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))  # global limit of the csv module, 131,072 by default
    named = _EXCEL_SEPARATOR.fullmatch(head[0]) if head else None
    head = head[1:] if named else head
    start = _read_start(head, named[1]) if named else _find_separator(head, path)
    report.form = _SEPARATED.get(start.separator, f"separated by {start.separator}")
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
        """Share of the rows that have `width` columns."""
        return bool(self.width) * sum(len(row) == self.width for row in self.rows) / max(len(self.rows), 1)

    @property
    def blanks(self) -> bool:
        """Whether most cells that follow a separator begin with a space, as after a comma in a sentence."""
        cells = [cell for row in self.rows for cell in row[1:]]
        return 2 * sum(cell.startswith(" ") for cell in cells) > len(cells)

    def show(self) -> str:
        """Return the first row with `width` columns, for messages."""
        row = next(row for row in self.rows if len(row) == self.width)
        return " and ".join(quoted(cell.strip(), 30) for cell in row[:4])


def _find_separator(head: Sequence[str], path: Path) -> _Start:
    """Choose the separator of a CSV file, and return the first rows, split with it.

    A separator can be chosen if it gives at least half of the rows the same number of columns, two or more. If no separator
    can be chosen, the comma is used. If several can, the first of these tests in which they differ decides:

    - The separator splits the first row that one of them splits, because this may be the header.
    - Its rows do not break the rules of quoting, as they would with a comma that is inside quoted cells.
    - It is a tab.
    - It gives more of the rows the same number of columns.
    - It gives more columns. This test does not decide if only this separator is followed by spaces, as commas in sentences are.

    Raises:
        DataError: If no test decides.
    """
    comma, semicolon, tab = (_read_start(head, separator) for separator in _SEPARATED)
    clear = [start for start in (tab, comma, semicolon) if start.share >= _CLEAR_SHARE]
    if not clear:
        return comma
    firsts = next(rows for rows in zip(*(start.rows for start in clear), strict=False) if max(map(len, rows)) > 1)
    clear = [start for start, row in zip(clear, firsts, strict=True) if len(row) > 1]
    sound = [start for start in clear if _read_head(head, start.separator, spaced=start.spaced, strict=True)]
    clear = sound or clear
    if clear[0] is tab:
        return tab
    most = max(start.share for start in clear)
    clear = [start for start in clear if start.share == most]
    if len(clear) == 1:
        return clear[0]
    fewer, more = sorted(clear, key=lambda start: start.width)
    if fewer.width < more.width and (fewer.blanks or not more.blanks):
        return more
    raise DataError(
        f"{path}: commas and semicolons both split its rows into columns: a row is {comma.show()} with commas, and "
        f"{semicolon.show()} with semicolons; add a first line that names the right one: sep=, or sep=;"
    )


def _read_start(head: Sequence[str], separator: str) -> _Start:
    """Split the first rows of a CSV file with one separator.

    Spaces between a separator and a quote are ignored if more rows then have the same number of columns. If the number of such
    rows stays equal, the spaces are ignored if a row that contains them already had the usual number of columns before.
    """
    plain = _read_head(head, separator) or _Start(separator, False, [])
    opened = [any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for cell in row) for row in plain.rows]
    spaced = _read_head(head, separator, spaced=True, strict=True) if any(opened) else None
    if spaced is None or spaced.share < plain.share:
        return plain
    fits = any(has and len(row) == plain.width for has, row in zip(opened, plain.rows, strict=True))
    return spaced if fits or spaced.share > plain.share else plain


def _read_head(head: Sequence[str], separator: str, *, spaced: bool = False, strict: bool = False) -> _Start | None:
    """Return the first lines of a CSV file as rows; None if they cannot be read. The last row may be incomplete."""
    rows = []
    try:
        for row in csv.reader(head, delimiter=separator, skipinitialspace=spaced, strict=strict):
            if row:
                rows.append(row)
    except csv.Error as error:
        if "end of data" not in str(error):
            return None
    return _Start(separator, spaced, rows)


def _csv_lines(path: Path, encoding: str) -> Iterator[str]:
    for first, lines in line_blocks(path, encoding):
        for number, line in enumerate(lines, first):
            if line is OVER_LONG_LINE:
                raise DataError(f"{path}, line {number}: is too long to be a row of CSV; is a quote opened and not closed?")
            yield _end_line(line)


def _end_line(line: str) -> str:
    """Return a line with a line feed at its end and placeholders for lone carriage returns, for the csv module."""
    return (_LONE_RETURN.sub(_STAND_IN, line) if "\r" in line else line) + "\n"
