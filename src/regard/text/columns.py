"""The choice of two columns of a table.

The settings decide first, then known names, then the content if it leaves exactly one choice. Otherwise an error shows the
columns with a sample of each, and the option to set.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

from regard.errors import DataError, nearest
from regard.plurals import counted
from regard.text.column_rules import NEVER, POSSIBLE, USUAL, ColumnRules, LabelledColumns, is_row_number
from regard.text.content import ENOUGH_TO_REPEAT, Content, describe_cells
from regard.text.strings import is_unicode, quoted, trim

SAMPLE_ROWS = 1000
"""Maximum number of rows from which columns are judged."""
COLUMNS_JUDGED = 100
"""Maximum number of columns that are judged; a column after these can only be chosen in the settings."""
_TRUSTED = 5
"""Minimum rank of a name that decides, whatever the column holds."""
_LONGEST_CELL = 2000
"""Maximum number of characters of a value from which a column is judged."""
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

    @cached_property
    def is_rare(self) -> bool:
        """Whether the column is empty in more than half of the rows."""
        empty = sum(cell is None or cell in ("", [], {}) or cell != cell for cell in self.cells)  # NaN differs from itself
        return 2 * empty > len(self.cells)

    def __str__(self) -> str:
        return str(self.place) if self.name is None else quoted(self.name)


def build_column(place: int, name: str | None, rows: Sequence[Row]) -> Column:
    """Build a column from some rows. The middle of a long value is left out, because a hostile file can have huge values."""
    values = (row[place] for row in rows[:SAMPLE_ROWS] if place < len(row))
    return Column(place, name, [_shorten(value) if isinstance(value, str) else value for value in values])


def _shorten(value: str) -> str:
    half = _LONGEST_CELL // 2
    return value if len(value) <= _LONGEST_CELL else f"{value[:half]} {value[-half:]}"


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

    Raises:
        DataError: If there are fewer than two columns; if the settings name a column that does not exist or cannot be read, or
            one column twice; if a column that cannot be read is named like a wanted column; or if the choice is not clear.
    """
    width = len(names) if names is not None else max(map(len, rows), default=0)
    if width < 2:
        raise DataError(
            f"{path}: has {counted(width, 'column')}, expected {rules.what}; if its first line is not a header, set "
            "data.header to no"
        )
    unreadable = unreadable or {}
    labels = list(names) if names is not None else [str(place) for place in range(width)]
    places = _place_given(labels, rules, path, unreadable)
    if places[0] is not None and places[1] is not None:
        return places[0], places[1]
    columns = [build_column(place, names[place] if names else None, rows) for place in range(min(width, COLUMNS_JUDGED))]
    choice = _Choice(columns, rules, path)
    if any(place is not None and place >= len(columns) for place in places):
        raise DataError(f"{path}: has more than {COLUMNS_JUDGED} columns; set {rules.settings}")
    chosen = choice.by_content(choice.by_name(places) if names is not None else places)
    for side in (0, 1):
        if places[side] is None:
            _check_unreadable(labels, chosen, side, rules, path, unreadable)
    choice.check_marks(chosen)
    return chosen


def _place_given(
    labels: Sequence[str], rules: ColumnRules, path: object, unreadable: Mapping[str, str]
) -> tuple[int | None, int | None]:
    """Return the positions of the columns that the settings name; None for a column that they don't name."""
    found: list[int | None] = []
    for name, side, setting in zip(rules.given(), rules.sides, _settings(rules), strict=True):
        if name in unreadable:
            raise DataError(
                f"{path}: '{name}' holds {unreadable[name]}, which cannot be read as {side}; write its values as plain texts, "
                f"or name another column with {rules.settings}"
            )
        found.append(find_position(name, labels, path, setting) if name else None)
    if found[0] is not None and found[0] == found[1]:
        raise DataError(f"{path}: {rules.settings} name the column '{labels[found[0]]}' twice, expected two different columns")
    return found[0], found[1]


def _settings(rules: ColumnRules) -> Sequence[str]:
    settings = rules.settings.split(" and ")
    return settings if len(settings) == 2 else ("", "")


class _Choice:
    """The choice among the columns of one table."""

    def __init__(self, columns: Sequence[Column], rules: ColumnRules, path: object) -> None:
        self.columns, self.rules, self.path = columns, rules, path

    def by_name(self, places: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        """Fill in the sides for which one column has the best name.

        A name with a low rank counts only if the content fits. If several columns have names of the same rank, those that are
        empty in most rows are left out.
        """
        found = list(places)
        best = [self._best_named(side) if found[side] is None else (0, []) for side in (0, 1)]
        if self.rules.in_order and best[0] == best[1] and len(best[0][1]) == 2:
            return best[0][1][0], best[0][1][1]
        for side in sorted((0, 1), key=lambda side: -best[side][0]):
            named = [place for place in best[side][1] if place != found[1 - side]]
            if len(named) > 1:
                shown = [str(self.columns[place]) for place in named]
                second = next((place for place in range(len(self.columns)) if place not in named), named[1])
                pair = (named[0], second) if side == 0 else (second, named[0])
                self.refuse(f"{shown[0]} and {shown[1]} could each be {self.rules.sides[side]}", pair)
            if named:
                found[side] = named[0]
        return found[0], found[1]

    def _best_named(self, side: int) -> tuple[int, list[int]]:
        """Return the highest rank of a name for a side, and the columns with such a name."""
        ranks: dict[int, list[int]] = {}
        for column in self.columns:
            rank = self.rules.rank(column.name or "", side)
            if rank > 0 and (rank >= _TRUSTED or self.rules.fits(column.content, side)):
                ranks.setdefault(rank, []).append(column.place)
        if not ranks:
            return 0, []
        named = ranks[max(ranks)]
        if len(named) > 1 + self.rules.in_order:
            named = [place for place in named if not self.columns[place].is_rare] or named
        return max(ranks), named

    def by_content(self, places: tuple[int | None, int | None]) -> Places:
        """Fill in the other sides, if the content leaves exactly one choice.

        Texts of several words are preferred to single words, and values that repeat to others.
        """
        if places[0] is not None and places[1] is not None:
            return places[0], places[1]
        texts = (_has_words, _is_any)
        levels = list(zip(texts, texts, strict=True)) if self.rules.in_order else list(product(texts, (_repeats, _is_any)))
        for rare, level in product((False, True), levels):
            sides = [self._candidates(side, places[side], level[side], rare=rare) for side in (0, 1)]
            pairs = [
                (first, second)
                for first, second in product(*sides)
                if first != second and (first < second or not self.rules.in_order or places != (None, None))
            ]
            if len(pairs) > 1:
                self.refuse(self._describe_rivals(pairs), pairs[0])
            if pairs:
                return pairs[0]
        return self._take_both(places) if self.rules.in_order and len(self.columns) == 2 else self._refuse_all(places)

    def _take_both(self, places: tuple[int | None, int | None]) -> Places:
        """Return the only two columns of a table of pairs, of which one may be a date, a code, or a number that is no id."""
        first = places[0] if places[0] is not None else 0 if places[1] is None else 1 - places[1]
        pair = first, 1 - first
        for side in (0, 1):
            if places[side] is None and not self._may_translate(pair[side], pair[1 - side], side):
                column = self.columns[pair[side]]
                why = f"column {column} holds {column.content.describe()}"
                self.refuse(f"no column looks like {self.rules.sides[side]} ({why})", pair)
        return pair

    def _candidates(self, side: int, given: int | None, test: Callable[[Content], bool], *, rare: bool) -> Iterator[int]:
        if given is not None:
            yield given
            return
        for column in self.columns:
            named = column.name is not None and self.rules.rank(column.name, side) == NEVER
            if not named and (rare or not column.is_rare) and self.rules.fits(column.content, side) and test(column.content):
                yield column.place

    def _may_translate(self, place: int, other: int, side: int) -> bool:
        """Return whether one of a table's only two columns can be a side of pairs although it does not look like text."""
        column, kind = self.columns[place], self.columns[place].content.kind
        if kind == "numbers" != self.columns[other].content.kind:
            texts = [str(cell).strip() for cell in column.cells]
            counting = all(map(str.isdecimal, texts)) and all(int(last) < int(text) for last, text in pairwise(texts))
            return side == 1 and not counting and not is_row_number(column.name or "")
        return column.content.distinct > 1 and kind in (self.columns[other].content.kind, "words", "dates")

    def check_marks(self, chosen: Places) -> None:
        """Raise an error if the label is one of three or more columns that hold only 0 and 1, or true and false."""
        if not isinstance(self.rules, LabelledColumns) or self.rules.data.label:
            return
        marks = [column.place for column in self.columns if column.place != chosen[0] and _is_mark(column)]
        if len(marks) > 2 and chosen[1] in marks:
            shown = [str(self.columns[place]) for place in marks]
            self.refuse(
                f"{', '.join(shown[:-1])} and {shown[-1]} hold only 0 and 1, or true and false; if they are labels of a text, "
                "write their names into one column, such as 'toxic,insult', and set data.label_separator to ','",
                chosen,
            )

    def _describe_rivals(self, pairs: Sequence[Places]) -> str:
        """Return a clause that names the columns between which the choice is not clear."""
        for side in (0, 1):
            rivals = list(dict.fromkeys(pair[side] for pair in pairs))
            if len(rivals) > 1 and len({pair[1 - side] for pair in pairs}) == 1:
                return f"{self.columns[rivals[0]]} and {self.columns[rivals[1]]} could each be {self.rules.sides[side]}"
        shown = " or ".join(f"{self.columns[first]} and {self.columns[second]}" for first, second in pairs[:2])
        return f"they could be columns {shown}"

    def _refuse_all(self, places: tuple[int | None, int | None]) -> Places:
        """Raise an error, because no column fits a side."""
        pair = self._example_pair(places)
        for side in (0, 1):
            column = self.columns[pair[side]]
            others = [other for other in self.columns if other.place != places[1 - side]]
            if places[side] is not None or any(self.rules.fits(other.content, side) for other in others):
                continue
            why = f"column {column} holds {column.content.describe()}"
            if side == 1 and not self.rules.in_order and column.content.varies:
                why = f"a label must repeat, but nearly all values of {column} are different"
            self.refuse(f"no column looks like {self.rules.sides[side]} ({why})", pair)
        self.refuse("no two columns fit", pair)
        raise AssertionError

    def _example_pair(self, places: tuple[int | None, int | None]) -> Places:
        free = [column.place for column in self.columns if column.place not in places]
        first = places[0] if places[0] is not None else free.pop(0)
        return first, places[1] if places[1] is not None else free[0]

    def refuse(self, doubt: str, pair: Places) -> None:
        """Raise an error with the doubt, the option that chooses two columns, and a sample of each column."""
        columns, rules = self.columns, self.rules
        names = [str(column.place) if column.name is None else column.name for column in columns]
        option = rules.example([names[place] if names[place] and is_unicode(names[place]) else str(place) for place in pair])
        lines = []
        for column in columns[:_COLUMNS_SHOWN]:
            sample = next((str(cell) for cell in column.cells if cell is not None and str(cell).strip()), "")
            name = "" if column.name is None else f" {quoted(column.name, 30)}:"
            lines.append(f"\n  {column.place}{name} {quoted(sample, 40)} ({column.content.describe()})")
        if len(columns) > _COLUMNS_SHOWN:
            lines.append(f"\n  … and {len(columns) - _COLUMNS_SHOWN} more")
        head = "by number" if columns[0].name is None else "by number and name"
        raise DataError(
            f"{self.path}: cannot tell which columns hold {rules.what}: {doubt}. Set {rules.settings}, for example {option}. "
            f"The columns {head}, with a sample:{''.join(lines)}"
        )


def _is_mark(column: Column) -> bool:
    """Return True if the values of a column are exactly 0 and 1, or exactly true and false."""
    return {str(cell).casefold().removesuffix(".0") for cell in column.cells} in ({"0", "1"}, {"false", "true"})


def _has_words(content: Content) -> bool:
    return content.words > 1.5


def _repeats(content: Content) -> bool:
    # A column that is constant in the first rows may be the label of a file that is sorted by label.
    return content.kind in ("lists", "one value") or (content.repeats and content.count >= ENOUGH_TO_REPEAT - 2)


def _is_any(content: Content) -> bool:
    return True


def _check_unreadable(
    labels: Sequence[str], chosen: Places, side: int, rules: ColumnRules, path: object, unreadable: Mapping[str, str]
) -> None:
    """Raise an error if a column that cannot be read has a better name than the chosen one, whose name says little."""

    def rank(name: str) -> int:
        return max(rules.rank(part, side) for part in (name, name.rpartition(".")[2]))

    best = rank(labels[chosen[side]])
    if best > POSSIBLE:
        return
    for name, shape in unreadable.items():
        named = rules.rank(name.rpartition(".")[2], side)
        if named >= USUAL if shape == TOO_DEEP else named > max(best, 1):
            if best > 0 and shape in ("lists", TOO_DEEP):
                continue  # other columns have such names by chance, such as lists of sources
            raise DataError(
                f"{path}: '{name}' is named like {rules.sides[side]}, but holds {shape}, which cannot be read; write its "
                f"values as plain texts, or choose other columns, for example {rules.example([labels[i] for i in chosen])}"
            )


def find_position(column: str, names: Sequence[str], path: object, setting: str = "") -> int:
    """Return the position of a column that is given by name or by number.

    Args:
        column: The name or the number.
        names: Names of all columns, or their numbers.
        path: The file, for messages.
        setting: Setting that gives the column, for messages.

    Raises:
        MissingColumnError: If there is no such column; the message lists the names of the columns, or their numbers.
    """
    column, names = trim(column), list(map(trim, names))
    if column in names:
        return names.index(column)
    where = f" ({setting})" if setting else ""
    if is_place(column):
        if int(column) < len(names):
            return int(column)
        raise MissingColumnError(
            f"{path}: there is no column {column}; it has {len(names)} columns, numbered 0 to {len(names) - 1}{where}"
        )
    folded = [name.casefold() for name in names]
    if column.casefold() in folded:
        return folded.index(column.casefold())
    held = ", ".join(quoted(name, 30) for name in names)
    raise MissingColumnError(f"{path}: there is no column '{column}'; it has {held}{nearest(column, names)}{where}")


def is_place(column: str) -> bool:
    """Return True if a column is given by its number; `²` and very long numbers are names."""
    return column.isascii() and column.isdigit() and len(column) < 10
