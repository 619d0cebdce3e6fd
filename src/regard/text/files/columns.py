"""The choice of two columns of a table: every column gets a score for each of two roles, such as text and label.

The scores come from a column's name and content. The two columns with the highest score together are taken if their lead over
any other two is large enough. If it is not, an error shows the columns and names the settings that choose them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TypeVar

from regard.errors import DataError, nearest
from regard.plurals import counted
from regard.text.files.content import NOT_TEXT_SCORE, TEXT_SCORE, Content, describe_cells, guess_language
from regard.text.files.names import fold
from regard.text.files.strings import is_unicode, quoted, trim

MARGIN = 2
"""Minimum difference between the scores of the best and the second-best pair of columns; with less, the choice is unclear."""
SAMPLE_ROWS = 1000
"""Maximum number of rows from which columns are judged."""
_MOST_GAIN = TEXT_SCORE - NOT_TEXT_SCORE
"""Maximum number of points that a column with a constant value in the first rows can gain if its value changes further down."""
_LEFT_OUT = -1000.0
"""Score of a column that must not be chosen."""
_LONGEST_CELL = 2000
"""Maximum number of characters of a value from which a column is judged."""
_COLUMNS_SHOWN = 12
_KEYS = frozenset(("id", "ids", "idx", "index", "uid", "uuid", "guid", "key", "row", "rowid", "line"))
COLUMNS_JUDGED = 100
"""Maximum number of columns that are scored; a column after these can only be chosen in the settings."""

T = TypeVar("T")
Row = Sequence[object]


class MissingColumnError(DataError):
    """Error for a column that the settings name but the table does not have."""


@dataclass(frozen=True)
class Column:
    """A column with some of its values."""

    place: int
    name: str | None
    """Name of the column; None if the columns have no names."""
    cells: Sequence[object]

    @cached_property
    def content(self) -> Content:
        """Summary of the content of the column."""
        return describe_cells(self.cells)

    @cached_property
    def language(self) -> str | None:
        """Code of the probable language of the column; None if it is not clear."""
        if self.content.kind != "words":
            return None
        return guess_language(cell for cell in self.cells if isinstance(cell, str))

    def __str__(self) -> str:
        return str(self.place) if self.name is None else quoted(self.name)


def build_column(place: int, name: str | None, rows: Sequence[Row]) -> Column:
    """Build a column from some rows. The middle of a long value is left out, because a hostile file can have huge values."""
    values = (row[place] for row in rows[:SAMPLE_ROWS] if place < len(row))
    return Column(place, name, [_shorten(value) if isinstance(value, str) else value for value in values])


def _shorten(value: str) -> str:
    half = _LONGEST_CELL // 2
    return value if len(value) <= _LONGEST_CELL else f"{value[:half]} {value[-half:]}"


class TwoColumns(ABC):
    """The two columns to look for in a table: their names, the settings that choose them, and the rules for their scores."""

    what: str
    """Name of both columns together in messages, such as `a source and a target`."""
    sides: tuple[str, str]
    """Name of each of the two columns in messages, such as `the source` and `the target`."""
    settings: str
    """The settings that choose columns, for messages."""
    header: str
    """Whether there is a header: `auto`, `yes` or `no`."""
    kinds: tuple[type, ...] = (str,)
    """Allowed types of values, for formats whose values have types."""
    allowed: str = "text"
    """Description of the allowed values, for messages."""
    one_column: str
    """Advice for files with only one column, for messages."""
    common_width: bool = False
    """Whether every line needs all columns; if False, a line only needs those up to the last wanted column."""
    repeating: bool = False
    """Whether the values of one of the two columns repeat, as labels do. Files are often sorted by such a column."""
    encoding: str = "auto"
    """Encoding of the file."""
    alike: bool = False
    """Whether the only two columns of a table may also be columns that do not look like text: two columns with the same kind of
    content, such as codes; a column of dates; or, as the second one, numbers that are not row numbers.
    """

    @abstractmethod
    def given(self) -> tuple[str, str]:
        """Return the two columns that the settings name; an empty string for a column that they don't name."""

    @abstractmethod
    def place_given(self, names: Sequence[str], path: object) -> tuple[int | None, int | None]:
        """Return the positions of the columns that the settings name; None for a column that they don't name.

        Raises:
            DataError: If a column does not exist, or both are the same.
        """

    @abstractmethod
    def scores(self, columns: Sequence[Column]) -> list[tuple[float, float]]:
        """Return two scores for each column: as the first and as the second of the two wanted columns."""

    def find_doubt(self, columns: Sequence[Column], best: tuple[int, int]) -> str:
        """Return a reason to reject the two columns with the best scores, or an empty text, which is the default."""
        return ""

    @abstractmethod
    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if the cells of a row are usual names of columns."""

    @abstractmethod
    def example(self, names: Sequence[str]) -> str:
        """Return the command-line options that choose two columns by name or number, for messages."""


def pick_evenly(rows: Iterable[T]) -> list[T]:
    """Return rows at equal distances from each other, fewer than half of `SAMPLE_ROWS`."""
    kept: list[T] = []
    step = 1
    for number, row in enumerate(rows):
        if number % step == 0:
            kept.append(row)
            if len(kept) == SAMPLE_ROWS // 2:
                kept, step = kept[::2], 2 * step
    return kept


def sample_rows(
    rows: Sequence[Row],
    width: int,
    wanted: TwoColumns,
    sample: Callable[[], Sequence[Row]],
    names: Sequence[str] | None = None,
) -> Sequence[Row]:
    """Return the rows from which columns are chosen: the first ones, and some of the whole file if it may be sorted by label.

    A file that is sorted by label begins with many rows that have the same label, so the label column looks constant there.
    Because reading the whole file takes time, it is read only if a constant column could be chosen. For example, a constant
    column `lang` beside a column `label` could not.

    Args:
        rows: The first rows of the file.
        width: Number of columns.
        wanted: The columns to look for.
        sample: Function that returns rows of the whole file. It is called only if a column that could be chosen is constant in
            the first rows.
        names: Names of the columns; None if they have no names.
    """
    if not wanted.repeating or width < 3 or all(wanted.given()):
        return rows
    columns = [build_column(place, names[place] if names else None, rows) for place in range(width)]
    constant = [column.place for column in columns if column.content.kind == "one value"]
    if not constant:
        return rows
    scores = wanted.scores(columns)
    best = [max(own[side] for own in scores) for side in (0, 1)]
    if all(scores[place][side] + _MOST_GAIN <= best[side] - MARGIN for place in constant for side in (0, 1)):
        return rows
    picked = sample()
    return picked if len(rows) < SAMPLE_ROWS else [*rows[: SAMPLE_ROWS // 2], *picked]


def choose_columns(
    names: Sequence[str] | None, rows: Sequence[Row], wanted: TwoColumns, path: object, *, left_out: Collection[int] = ()
) -> tuple[int, int]:
    """Return the positions of the two wanted columns.

    Args:
        names: Names of the columns; None if they have no names.
        rows: Some rows of the table, without a header.
        wanted: The columns to look for.
        path: The file, for messages.
        left_out: Positions of columns that are never chosen.

    Raises:
        DataError: If there are fewer than two columns, the settings name a column that does not exist or one column twice, or
            it is not clear which columns are wanted.
    """
    width = len(names) if names is not None else max(map(len, rows), default=0)
    if width < 2:
        raise DataError(
            f"{path}: has {counted(width, 'column')}, expected {wanted.what}; if its first line is not a header, set "
            "data.header to no"
        )
    labels = list(names) if names is not None else [str(place) for place in range(width)]
    given = wanted.place_given(labels, path)
    if given[0] is not None and given[1] is not None:
        return given[0], given[1]
    columns = [
        build_column(place, None if names is None else names[place], rows) for place in range(min(width, COLUMNS_JUDGED))
    ]
    return _choose(columns, _score(columns, wanted, left_out), given, wanted, path)


def _score(columns: Sequence[Column], wanted: TwoColumns, left_out: Collection[int]) -> list[tuple[float, float]]:
    counting = [column for column in columns if column.place not in left_out]
    scores = dict(zip((column.place for column in counting), wanted.scores(counting), strict=True))
    return [scores.get(column.place, (_LEFT_OUT, _LEFT_OUT)) for column in columns]


def _choose(
    columns: Sequence[Column],
    scores: Sequence[tuple[float, float]],
    given: tuple[int | None, int | None],
    wanted: TwoColumns,
    path: object,
) -> tuple[int, int]:
    ranked = sorted(
        (_order(first, second, scores, given) for first, second in combinations(range(len(columns)), 2)), reverse=True
    )
    ranked = [found for found in ranked if found[0] > -float("inf")]
    if not ranked:  # the settings name a column after those that are scored
        raise DataError(f"{path}: has more than {COLUMNS_JUDGED} columns; set {wanted.settings}")
    value, best = ranked[0][0], (-ranked[0][1], -ranked[0][2])
    if len(ranked) > 1 and ranked[1][0] > value - MARGIN:
        doubt = _name_rivals(columns, best, (-ranked[1][1], -ranked[1][2]), wanted)
        raise DataError(_refuse(columns, doubt, best, wanted, path))
    if None in given and (doubt := wanted.find_doubt(columns, best)):
        raise DataError(_refuse(columns, doubt, best, wanted, path))
    alone = wanted.alike and len(columns) == 2
    for side in (0, 1):
        column, other = columns[best[side]], columns[best[1 - side]]
        if given[side] is None and scores[column.place][side] < 0 and not (alone and _may_translate(column, other, side)):
            doubt = f"no column looks like {wanted.sides[side]} (column {column} holds {column.content.describe()})"
            raise DataError(_refuse(columns, doubt, best, wanted, path))
    return best


def _may_translate(column: Column, other: Column, side: int) -> bool:
    """Return whether one of a table's only two columns can be a side of pairs although it does not look like text."""
    kind = column.content.kind
    if kind == "numbers" != other.content.kind:
        texts = [str(cell).strip() for cell in column.cells]
        counting = all(map(str.isdecimal, texts)) and all(int(last) < int(text) for last, text in pairwise(texts))
        return side == 1 and not counting and _KEYS.isdisjoint(fold(column.name or "").split())
    return column.content.distinct > 1 and kind in (other.content.kind, "words", "dates")


def _order(
    low: int, high: int, scores: Sequence[tuple[float, float]], given: tuple[int | None, int | None]
) -> tuple[float, int, int]:
    """Return the score of two columns in their better order, and their negated positions, so that earlier columns win ties."""

    def value(first: int, second: int) -> float:
        if given[0] not in (None, first) or given[1] not in (None, second):
            return -float("inf")
        return (0 if given[0] is not None else scores[first][0]) + (0 if given[1] is not None else scores[second][1])

    straight, turned = value(low, high), value(high, low)
    return (straight, -low, -high) if straight >= turned else (turned, -high, -low)


def _name_rivals(columns: Sequence[Column], best: tuple[int, int], second: tuple[int, int], wanted: TwoColumns) -> str:
    """Return a clause that names the columns between which the choice is not clear."""
    for side in (0, 1):
        if best[side] != second[side] and best[1 - side] == second[1 - side]:
            return f"{columns[best[side]]} and {columns[second[side]]} could each be {wanted.sides[side]}"
    shown_pairs = " or ".join(f"{columns[first]} and {columns[last]}" for first, last in (best, second))
    return f"they could be columns {shown_pairs}"


def _refuse(columns: Sequence[Column], doubt: str, best: tuple[int, int], wanted: TwoColumns, path: object) -> str:
    """Return the error message: the doubt, how to choose two columns, and a sample of each column."""
    names = [str(column.place) if column.name is None else column.name for column in columns]
    option = wanted.example([names[place] if names[place] and is_unicode(names[place]) else str(place) for place in best])
    lines = []
    for column in columns[:_COLUMNS_SHOWN]:
        sample = next((str(cell) for cell in column.cells if cell is not None and str(cell).strip()), "")
        name = "" if column.name is None else f" {quoted(column.name, 30)}:"
        lines.append(f"  {column.place}{name} {quoted(sample, 40)} ({column.content.describe()})")
    more = [f"  … and {len(columns) - _COLUMNS_SHOWN} more"] if len(columns) > _COLUMNS_SHOWN else []
    head = "by number" if columns[0].name is None else "by number and name"
    return "\n".join(
        (
            f"{path}: cannot tell which columns hold {wanted.what}: {doubt}. Set {wanted.settings}, for example "
            f"{option}. The columns {head}, with a sample:",
            *lines,
            *more,
        )
    )


def find_position(wanted: str, names: Sequence[str], path: object) -> int:
    """Return the position of a column that is given by name or by number.

    Raises:
        MissingColumnError: If there is no such column; the message lists the names of the columns, or their numbers.
    """
    wanted, names = trim(wanted), list(map(trim, names))
    if wanted in names:
        return names.index(wanted)
    if is_place(wanted):
        if int(wanted) < len(names):
            return int(wanted)
        raise MissingColumnError(
            f"{path}: there is no column {wanted}; it has {len(names)} columns, numbered 0 to {len(names) - 1}"
        )
    folded = [name.casefold() for name in names]
    if wanted.casefold() in folded:
        return folded.index(wanted.casefold())
    held = ", ".join(quoted(name, 30) for name in names)
    raise MissingColumnError(f"{path}: there is no column '{wanted}'; it has {held}{nearest(wanted, names)}")


def is_place(column: str) -> bool:
    """Return True if a column is given by its number; `²` and very long numbers are names."""
    return column.isascii() and column.isdigit() and len(column) < 10
