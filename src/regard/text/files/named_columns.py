"""The choice of two columns that have names and types, as in JSON and Parquet.

A column inside another is named `outer.inner`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.files.columns import MARGIN, Column, MissingColumnError, TwoColumns, choose_columns
from regard.text.files.names import EXACT, LABEL, SOURCE, TARGET, TEXT

Keys = tuple[str, ...]
"""Name of a column, or the names of an object and of a column in it."""

_DEEPEST = 8
"""Maximum depth of nested objects in which names of columns are searched."""


def choose_keys(
    found: Sequence[Keys], rows: Sequence[Sequence[Any]], unusable: Mapping[str, Any], wanted: TwoColumns, path: Path
) -> tuple[Keys, ...]:
    """Choose two columns, and check that no column with a better name was ignored because it cannot be read.

    If the choice is not clear, it is repeated without the columns that are empty in most rows.

    Args:
        found: The columns that can be read.
        rows: Values of these columns, or of the first ones.
        unusable: Columns whose values cannot be read, with an example value of each.
        wanted: The columns to look for.
        path: The file, for messages.

    Raises:
        DataError: As for `choose_columns`; or if the settings name a column that cannot be read; or if a column that cannot be
            read is named like a wanted column, and the name of the chosen column is not a certain or usual one.
    """
    unusable = {name: value for name, value in unusable.items() if describe_shape(value)}
    given = wanted.given()
    for role, name in zip(wanted.sides, given, strict=True):
        if name in unusable:
            raise DataError(
                f"{path}: '{name}' holds {describe_shape(unusable[name])}, which cannot be read as {role}; write its values as "
                f"plain texts, or name another column with {wanted.settings}"
            )
    names = [".".join(keys) for keys in found]
    try:
        places = choose_columns(names, rows, wanted, path)
    except MissingColumnError:
        raise
    except DataError:
        usual = _choose_usual(names, rows, wanted, path)
        if usual is None:
            raise
        places = usual
    chosen = [names[place] for place in places]
    inner = [name for outer, value in unusable.items() for name in _find_names(value, outer)]
    for side in (0, 1):
        # If the name of the chosen column fits, other columns have such names by chance, such as lists of sources.
        best = _rate(chosen[side], side, wanted)
        if given[side] or best > EXACT[2]:
            continue
        known = (name for name in unusable if _is_known(name, usual=False))
        rivals = [name for name in known if best <= 0 or describe_shape(unusable[name]) != "lists"]
        rivals += [name for name in inner if best <= 0 and _is_known(name, usual=True)]
        rival = next((name for name in rivals if _rate_name(_last(name), side, wanted) >= MARGIN), None)
        if rival:
            shape = describe_shape(unusable[rival]) if rival in unusable else "values nested too deeply"
            raise DataError(
                f"{path}: '{rival}' is named like {wanted.sides[side]}, but holds {shape}, which cannot be read; write its "
                f"values as plain texts, or choose other columns, for example {wanted.example(chosen)}"
            )
    return tuple(found[place] for place in places)


def _choose_usual(
    names: Sequence[str], rows: Sequence[Sequence[Any]], wanted: TwoColumns, path: Path
) -> tuple[int, int] | None:
    """Choose two of the columns that have a value in at least half of the rows.

    Optional keys, which few rows have, then cannot make the choice unclear.

    Returns:
        The positions of the columns; None if the choice is not clear, or the name of a chosen column says nothing or less than
        that of a column that was left out.
    """
    width = len(rows[0]) if rows else 0
    filled = [sum(not _is_empty(row[place]) for row in rows) for place in range(width)]
    rare = {place for place in range(width) if 2 * filled[place] < len(rows)} - set(wanted.place_given(names, path))
    if not rare:
        return None
    try:
        places = choose_columns(names, rows, wanted, path, left_out=rare)
    except DataError:
        return None
    for place, given, side in zip(places, wanted.given(), (0, 1), strict=True):
        # A label column with many missing values must not be replaced silently with another column.
        better = max(_rate_name(names[other], side, wanted) for other in rare)
        if not given and (_rate(names[place], side, wanted) <= 0 or _rate_name(names[place], side, wanted) < better):
            return None
    return places


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {}) or value != value  # NaN differs from itself


def describe_shape(value: Any) -> str:
    """Return the shape of a list or an object, for messages; empty for other values."""
    if isinstance(value, dict):
        return "objects inside objects"
    if not isinstance(value, list):
        return ""
    inside = next((item for item in value if isinstance(item, list | dict)), None)
    return "lists" if inside is None else f"lists of {'objects' if isinstance(inside, dict) else 'lists'}"


def _find_names(value: Any, name: str, depth: int = 0) -> Iterator[str]:
    """Yield the names of all keys of an object and of the objects inside it, such as `meta.info.label`."""
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, held in value.items():
            yield f"{name}.{key}"
            yield from _find_names(held, f"{name}.{key}", depth + 1)


def _is_known(name: str, *, usual: bool) -> bool:
    """Return True if the last part of a name is a known name of a column; if `usual`, only certain and usual names count."""
    last = _last(name)
    return any(names.is_usual(last) if usual else names.is_exact(last) for names in (TEXT, LABEL, SOURCE, TARGET))


def _rate(name: str, side: int, wanted: TwoColumns) -> float:
    """Return the score of a column's name or of its last part, whichever is higher."""
    return max(_rate_name(part, side, wanted) for part in (name, _last(name)))


def _rate_name(name: str, side: int, wanted: TwoColumns) -> float:
    """Return the score of a column without values, which depends on its name alone."""
    return wanted.scores([Column(0, name, [])])[0][side]


def _last(name: str) -> str:
    """Return the last part of the name of a nested value."""
    return name.rpartition(".")[2]
