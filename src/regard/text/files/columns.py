"""Which two columns of a table are wanted: every column is scored for both, by its name and by what it holds.

The pair of columns with the highest score is taken if it is far enough ahead of every other pair. If it is not, nothing is
guessed: the error shows the columns and names the settings that choose them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from regard.errors import DataError, nearest
from regard.text.files.content import Content, describe_cells
from regard.text.files.guess import guess_language
from regard.text.files.show import quoted, shown

MARGIN = 2
"""How far the best pair of columns must be ahead of the next."""
SAMPLE_ROWS = 1000
"""Rows that columns are judged by."""
_GUESSED_BY = 300
_LONGEST_CELL = 2000
"""Characters of a value that are looked at."""
_COLUMNS_SHOWN = 12
_COLUMNS_JUDGED = 100
"""Columns that are scored; a table with more needs its columns named."""

Row = Sequence[object]


class MissingColumnError(DataError):
    """A column that the settings ask for is not there."""


@dataclass(frozen=True)
class Column:
    """A column with some of its values."""

    place: int
    name: str | None
    """None where the columns have no names."""
    cells: Sequence[object]

    @cached_property
    def content(self) -> Content:
        """What the column holds."""
        return describe_cells(self.cells)

    @cached_property
    def language(self) -> str | None:
        """Code of the language that the column is probably in."""
        if self.content.kind != "words":
            return None
        return guess_language(cell for cell in self.cells[:_GUESSED_BY] if isinstance(cell, str))

    def __str__(self) -> str:
        return str(self.place) if self.name is None else quoted(self.name)


def build_column(place: int, name: str | None, rows: Sequence[Row]) -> Column:
    """Return a column of some rows, without the middles of long values: a hostile file has values of millions of characters."""
    values = (row[place] for row in rows[:SAMPLE_ROWS] if place < len(row))
    return Column(place, name, [_shorten(value) if isinstance(value, str) else value for value in values])


def _shorten(value: str) -> str:
    half = _LONGEST_CELL // 2
    return value if len(value) <= _LONGEST_CELL else f"{value[:half]} {value[-half:]}"


class Wanted(ABC):
    """What is looked for in a table: two columns, and what is known of them."""

    what: str
    """For messages, such as `a source and a target`."""
    sides: tuple[str, str]
    """What each of the two is called in messages."""
    settings: str
    """The settings that choose columns, for messages."""
    header: str
    """`auto`, `yes` or `no`."""
    kinds: tuple[type, ...] = (str,)
    """What a value may be where values have types."""
    one_column: str
    """What to do if there is only one column, for messages."""
    common_width: bool = False
    """Whether every line must have as many columns as most have."""
    encoding: str = "auto"
    """Encoding of the file."""
    alike: bool = False
    """Whether two columns that hold the same kind of thing, such as codes, are what is wanted if there are no others."""

    @abstractmethod
    def given(self) -> tuple[str, str]:
        """Return the columns that settings name, each empty where they don't."""

    @abstractmethod
    def place_given(self, names: Sequence[str], path: object) -> tuple[int | None, int | None]:
        """Return the places of the columns that settings name.

        Raises:
            DataError: If one is not there, or both are the same.
        """

    @abstractmethod
    def scores(self, columns: Sequence[Column]) -> list[tuple[float, float]]:
        """Return how well each column would do as each of the two."""

    @abstractmethod
    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if the cells of a row are what columns are usually called."""

    @abstractmethod
    def example(self, names: Sequence[str]) -> str:
        """Return the options that choose two columns, for messages."""


def choose_columns(names: Sequence[str] | None, rows: Sequence[Row], wanted: Wanted, path: object) -> tuple[int, int]:
    """Return the places of the two wanted columns.

    Args:
        names: What the columns are called; None if they have no names.
        rows: Some rows of the table, without a header.
        wanted: What is looked for.
        path: For messages.

    Raises:
        DataError: If settings ask for a column that is not there, or it is not clear which columns are wanted.
    """
    width = len(names) if names is not None else max(map(len, rows), default=0)
    if width < 2:
        raise DataError(f"{path}: its first line names {width} column, expected {wanted.what}; is it a header?")
    labels = list(names) if names is not None else [str(place) for place in range(width)]
    given = wanted.place_given(labels, path)
    if given[0] is not None and given[1] is not None:
        return given[0], given[1]
    columns = [
        build_column(place, None if names is None else names[place], rows) for place in range(min(width, _COLUMNS_JUDGED))
    ]
    return _choose(columns, given, wanted, path)


def _choose(columns: Sequence[Column], given: tuple[int | None, int | None], wanted: Wanted, path: object) -> tuple[int, int]:
    scores = wanted.scores(columns)
    ranked = sorted(
        (_order(first, second, scores, given) for first, second in combinations(range(len(columns)), 2)), reverse=True
    )
    ranked = [found for found in ranked if found[0] > -float("inf")]
    if not ranked:  # the one that was given lies behind the columns that are judged
        raise DataError(f"{path}: has more than {_COLUMNS_JUDGED} columns; set {wanted.settings}")
    value, best = ranked[0][0], (-ranked[0][1], -ranked[0][2])
    if len(ranked) > 1 and ranked[1][0] > value - MARGIN:
        doubt = _name_rivals(columns, best, (-ranked[1][1], -ranked[1][2]), wanted)
        raise DataError(_refuse(columns, doubt, best, wanted, path))
    alike = wanted.alike and len(columns) == 2 and columns[0].content.kind == columns[1].content.kind
    for side in (0, 1):
        column = columns[best[side]]
        if given[side] is None and scores[column.place][side] < 0 and not (alike and column.content.distinct > 1):
            doubt = f"no column looks like {wanted.sides[side]} (column {column} holds {column.content.describe()})"
            raise DataError(_refuse(columns, doubt, best, wanted, path))
    return best


def _order(
    low: int, high: int, scores: Sequence[tuple[float, float]], given: tuple[int | None, int | None]
) -> tuple[float, int, int]:
    """Return the score of two columns in their better order, and that order as negative places, so that the first wins ties."""

    def value(first: int, second: int) -> float:
        if given[0] not in (None, first) or given[1] not in (None, second):
            return -float("inf")
        return (0 if given[0] is not None else scores[first][0]) + (0 if given[1] is not None else scores[second][1])

    straight, turned = value(low, high), value(high, low)
    return (straight, -low, -high) if straight >= turned else (turned, -high, -low)


def _name_rivals(columns: Sequence[Column], best: tuple[int, int], second: tuple[int, int], wanted: Wanted) -> str:
    """Return a clause on the two columns between which the choice is not clear."""
    for side in (0, 1):
        if best[side] != second[side] and best[1 - side] == second[1 - side]:
            return f"{columns[best[side]]} and {columns[second[side]]} could each be {wanted.sides[side]}"
    shown_pairs = " or ".join(f"{columns[first]} and {columns[last]}" for first, last in (best, second))
    return f"they could be columns {shown_pairs}"


def _refuse(columns: Sequence[Column], doubt: str, best: tuple[int, int], wanted: Wanted, path: object) -> str:
    """Return the message that shows the columns with a sample row, and how to choose."""
    names = [str(column.place) if column.name is None else column.name for column in columns]
    option = wanted.example([names[place] or str(place) for place in best])
    lines = []
    for column in columns[:_COLUMNS_SHOWN]:
        sample = next((str(cell) for cell in column.cells if cell is not None and str(cell).strip()), "")
        name = "" if column.name is None else f" {quoted(column.name, 30)}:"
        lines.append(f"  {column.place}{name} {quoted(sample, 40)} ({column.content.describe()})")
    more = [f"  … and {len(columns) - _COLUMNS_SHOWN} more"] if len(columns) > _COLUMNS_SHOWN else []
    head = "by number" if columns[0].name is None else "by number and name"
    return "\n".join(
        (
            f"{shown(str(path))}: cannot tell which columns hold {wanted.what}: {doubt}. Set {wanted.settings}, for example "
            f"{option}. The columns {head}, with a sample:",
            *lines,
            *more,
        )
    )


def find_position(wanted: str, names: Sequence[str], path: object) -> int:
    """Return the place of a column that is given by name or by number.

    Raises:
        DataError: If it is not there; the message has those that are, and the nearest.
    """
    if wanted in names:
        return names.index(wanted)
    if is_place(wanted):
        if int(wanted) < len(names):
            return int(wanted)
        raise DataError(f"{path}: there is no column {wanted}; it has {len(names)} columns, numbered 0 to {len(names) - 1}")
    folded = [name.casefold() for name in names]
    if wanted.casefold() in folded:
        return folded.index(wanted.casefold())
    raise DataError(f"{path}: there is no column '{wanted}'; it has {', '.join(map(repr, names))}{nearest(wanted, names)}")


def is_place(column: str) -> bool:
    """Whether a column is given by its number: `²` and digits without end are names."""
    return column.isascii() and column.isdigit() and len(column) < 10
