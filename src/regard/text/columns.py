"""The choice of two columns of a table.

The settings decide first, then known names, then the content if it leaves exactly one choice. Otherwise an error shows the
columns with a sample of each, and the option to set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from regard.errors import DataError, nearest
from regard.plurals import counted
from regard.text.column_rules import NEVER, USUAL, ColumnRules
from regard.text.content import Content, describe_cells
from regard.text.strings import is_unicode, quoted, trim

SAMPLE_ROWS = 1000
"""Maximum number of rows from which columns are judged."""
COLUMNS_JUDGED = 100
"""Maximum number of columns that are judged; a column after these can only be chosen in the settings."""
# Minimum rank of a name that decides, whatever the column holds.
_TRUSTED = 5
# Maximum number of characters of a value from which a column is judged.
_LONGEST_CELL = 2000
_COLUMNS_SHOWN = 12
TOO_DEEP = "values nested too deeply"
"""Shape of values inside lists or deep inside objects, which cannot be read."""

Row = Sequence[object]
Places = tuple[int, int]


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

    @property
    def sample(self) -> str:
        """The first value that is not empty, shortened, with a description of the content."""
        first = next((str(cell) for cell in self.cells if cell is not None and str(cell).strip()), "")
        return f"{quoted(first, 40)} ({self.content.describe()})"

    def __str__(self) -> str:
        return str(self.place) if self.name is None else quoted(self.name)


def build_column(place: int, name: str | None, rows: Sequence[Row]) -> Column:
    """Build a column from some rows. The middle of a long value is left out, because a hostile file can have huge values."""
    half = _LONGEST_CELL // 2
    cells = [row[place] for row in rows[:SAMPLE_ROWS] if place < len(row)]
    for number, cell in enumerate(cells):
        if isinstance(cell, str) and len(cell) > _LONGEST_CELL:
            cells[number] = f"{cell[:half]} {cell[-half:]}"
    return Column(place, name, cells)


def choose_columns(
    names: Sequence[str] | None,
    rows: Sequence[Row],
    rules: ColumnRules,
    path: object,
    unreadable: Mapping[str, str] | None = None,
) -> Places:
    """Return the positions of the two wanted columns.

    Args:
        names: Names of the columns; None if they have no names.
        rows: Some rows of the table, without a header.
        rules: The columns to look for.
        path: The file, for messages.
        unreadable: Names of further columns, whose values cannot be read, with a description of these values.
    """
    width = len(names) if names is not None else max(map(len, rows), default=0)
    if width < 2:
        raise DataError(
            f"{path}: has {counted(width, 'column')}, expected {rules.what}; if its first line is not a header, set "
            "data.header to no"
        )
    columns = [build_column(place, names[place] if names else None, rows) for place in range(min(width, COLUMNS_JUDGED))]
    choice = _Choice(columns, rules, path, unreadable or {})
    choice.take_given(list(names) if names is not None else list(map(str, range(width))))
    if names is not None and None in choice.chosen:
        choice.take_named()
    if None in choice.chosen:
        choice.take_by_content()
    first, second = choice.chosen
    assert first is not None
    assert second is not None
    return first, second


class _Choice:
    """The choice among the columns of one table."""

    def __init__(self, columns: Sequence[Column], rules: ColumnRules, path: object, unreadable: Mapping[str, str]) -> None:
        self.columns, self.rules, self.path, self.unreadable = columns, rules, path, unreadable
        self.chosen: list[int | None] = [None, None]

    def take_given(self, labels: Sequence[str]) -> None:
        path, rules = self.path, self.rules
        options = (rules.settings.split(" and ") * 2)[:2]
        for side, name in enumerate(rules.given):
            if name in self.unreadable:
                raise DataError(
                    f"{path}: '{name}' holds {self.unreadable[name]}, which cannot be read as {rules.sides[side]}; write its "
                    f"values as plain texts, or name another column with {rules.settings}"
                )
            self.chosen[side] = find_position(name, labels, path, options[side]) if name else None
        first, second = self.chosen
        if first is not None and first == second:
            raise DataError(f"{path}: {rules.settings} name the column '{labels[first]}' twice, expected two different columns")
        if None in self.chosen and any(place is not None and place >= len(self.columns) for place in self.chosen):
            raise DataError(f"{path}: has more than {COLUMNS_JUDGED} columns; set {rules.settings}")

    def take_named(self) -> None:
        """Take the column with the best name for each side. A name with a low rank counts only if the content fits."""
        best = [self._find_named(side) if self.chosen[side] is None else (0, []) for side in (0, 1)]
        if self.rules.in_order and best[0] == best[1] and (shared := best[0][1]):
            # Any two languages, for example, are a source and a target; a single one could be either.
            if len(shared) == 2:
                self.chosen = list(shared)
            elif len(self.columns) > 2:
                self._refuse(f"{' and '.join(str(self.columns[place]) for place in shared)} could each be a source or a target")
            return
        # The side with the better name chooses first, because one column may be the best for both.
        for side in sorted((0, 1), key=lambda side: -best[side][0]):
            self._take([place for place in best[side][1] if place != self.chosen[1 - side]], side)

    def _find_named(self, side: int) -> tuple[int, list[int]]:
        """Return the highest rank of a name for a side, and the columns with such a name."""
        ranks: dict[int, list[int]] = {}
        for column in self.columns:
            rank = self.rules.rank(column.name or "", side)
            if rank > 0 and (rank >= _TRUSTED or self.rules.rates[side](column.content)):
                ranks.setdefault(rank, []).append(column.place)
        best = max(ranks, default=0)
        for name, shape in self.unreadable.items() if best < _TRUSTED else ():
            if self.rules.rank(name.rpartition(".")[2], side) > max(best, USUAL - 1 if shape == TOO_DEEP else 0):
                self._refuse(f"'{name}' is named like {self.rules.sides[side]}, but holds {shape}, which cannot be read")
        return best, ranks.get(best, [])

    def _take(self, places: Sequence[int], side: int) -> None:
        """Take the only column of some for a side; two columns are a doubt."""
        if len(places) > 1:
            self._refuse(f"{self.columns[places[0]]} and {self.columns[places[1]]} could each be {self.rules.sides[side]}")
        if places:
            self.chosen[side] = places[0]

    def take_by_content(self) -> None:
        """Take the columns whose content fits, if exactly one choice fits best."""
        candidates = [self._rate_all(side) for side in (0, 1)]
        ordered = self.rules.in_order and self.chosen == [None, None]
        pairs = [
            (first + second, one, other)
            for (one, first), (other, second) in product(*candidates)
            if one != other and not (ordered and one > other)
        ]
        if not pairs:
            side = next((side for side in (0, 1) if not candidates[side]), 1)
            needed = "" if side == 0 or self.rules.in_order else ", whose values must repeat"
            self._refuse(f"no column looks like {self.rules.sides[side]}{needed}")
        best = max(pairs)[0]
        fitting = [(one, other) for rate, one, other in pairs if rate == best]
        # The ambiguous side first, so that the error names it.
        for side in sorted((0, 1), key=lambda side: len({pair[side] for pair in fitting}) == 1):
            self._take(list(dict.fromkeys(pair[side] for pair in fitting)), side)

    def _rate_all(self, side: int) -> list[tuple[int, int]]:
        """Return the column that was chosen for a side; or else the columns that fit it, and how well they do."""
        if (place := self.chosen[side]) is not None:
            return [(place, 0)]
        rules, rates = self.rules, [self.rules.rates[side](column.content) for column in self.columns]
        if rules.in_order and len(self.columns) == 2:
            # The only two columns of pairs may hold dates, or values of one kind such as codes, unless a value never changes.
            kinds = {column.content.kind for column in self.columns}
            known = [column.content.kind in ("words", "dates") or len(kinds) == 1 for column in self.columns]
            varied = [column.content.distinct > 1 for column in self.columns]
            return [(place, 1) for place in (0, 1) if rates[place] or (known[place] and varied[place])]
        excluded = [column.name is not None and rules.rank(column.name, side) == NEVER for column in self.columns]
        return [(place, rate) for place, rate in enumerate(rates) if rate and not excluded[place]]

    def _refuse(self, doubt: str) -> None:
        """Raise an error with the doubt, the option that chooses two columns, and a sample of each column."""
        columns, rules = self.columns, self.rules
        pair = list(self.chosen)
        for side in (0, 1):
            if pair[side] is None:
                free = [column for column in columns if column.place not in pair]
                pair[side] = max(free, key=lambda column: rules.rates[side](column.content)).place
        known = [column.name for column in columns]
        names = [known[place] for place in pair if place is not None]
        clear = [name if name and is_unicode(name) and known.count(name) == 1 else None for name in names]
        option = rules.example([name or str(place) for name, place in zip(clear, pair, strict=True)])
        lines = [
            f"\n  {column.place}{'' if column.name is None else f' {quoted(column.name, 30)}:'} {column.sample}"
            for column in columns[:_COLUMNS_SHOWN]
        ]
        if len(columns) > _COLUMNS_SHOWN:
            lines.append(f"\n  … and {len(columns) - _COLUMNS_SHOWN} more")
        head = "by number" if columns[0].name is None else "by number and name"
        raise DataError(
            f"{self.path}: cannot tell which columns hold {rules.what}: {doubt}. Set {rules.settings}, for example {option}. "
            f"The columns {head}, with a sample:{''.join(lines)}"
        )


def find_position(column: str, names: Sequence[str], path: object, setting: str) -> int:
    """Return the position of a column that the setting gives by name or by number."""
    column, names = trim(column), list(map(trim, names))
    if names.count(column) > 1:
        numbers = " and ".join(str(place) for place, name in enumerate(names) if name == column)
        raise DataError(
            f"{path}: columns {numbers} have the same name {quoted(column, 30)}; give a column's number ({setting})"
        )
    if column in names:
        return names.index(column)
    if is_place(column):
        if int(column) < len(names):
            return int(column)
        raise MissingColumnError(
            f"{path}: there is no column {column}; it has {len(names)} columns, numbered 0 to {len(names) - 1} ({setting})"
        )
    folded = [name.casefold() for name in names]
    if column.casefold() in folded:
        return folded.index(column.casefold())
    held = ", ".join(quoted(name, 30) for name in names)
    raise MissingColumnError(f"{path}: there is no column '{column}'; it has {held}{nearest(column, names)} ({setting})")


def is_place(column: str) -> bool:
    """Return True if a column is given by its number; `²` and very long numbers are names."""
    return column.isascii() and column.isdigit() and len(column) < 10
