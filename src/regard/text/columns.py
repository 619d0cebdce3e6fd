"""Which columns are wanted of a table; for pairs, which two, and whether the first line names them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.config import DataConfig
from regard.errors import DataError, nearest
from regard.text.report import COLUMN_NUMBERS, HEADER

SOURCE_NAMES = ("source", "src", "source_text", "src_text", "source_sentence", "input")
TARGET_NAMES = ("target", "tgt", "trg", "target_text", "tgt_text", "target_sentence", "translation", "reference", "output")
LANGUAGES = {
    "ar": "arabic", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "fi": "finnish", "fr": "french", "he": "hebrew", "hi": "hindi", "hu": "hungarian", "is": "icelandic",
    "it": "italian", "ja": "japanese", "ko": "korean", "lt": "lithuanian", "lv": "latvian", "nl": "dutch", "no": "norwegian",
    "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sk": "slovak", "sv": "swedish", "tr": "turkish",
    "uk": "ukrainian", "vi": "vietnamese", "zh": "chinese",
}  # fmt: skip
OTHER_NAMES = ("id", "index", "score", "text", "sentence", "sentence1", "sentence2", "attribution", "license", "deutsch", "")
"""Further names that a header may hold beside those of the two sides."""


@dataclass(frozen=True)
class Layout:
    """Where what is wanted stands in a line."""

    places: tuple[int, ...]
    names: tuple[str, ...]
    """The columns as a report shows them."""
    first: str | None
    """Why the first line is none of the data, or None where it is."""
    width: int = 0
    """Columns that every line must have; 0: enough for `places`."""


@dataclass(frozen=True)
class Wanted:
    """What a reader of tables is asked for."""

    what: str
    """For messages, such as `a source and a target`."""
    settings: str
    """The settings that choose columns, for messages."""
    choose: Callable[[Sequence[str], object], tuple[int, ...]]
    """From the columns' names and the path to the places of those wanted."""
    find_layout: Callable[[Sequence[Sequence[str]], object], Layout]
    """From the first rows of a file without types and the path to their layout."""
    kinds: tuple[type, ...] = (str,)
    """What a value may be where values have types."""


def pair_columns(data: DataConfig) -> Wanted:
    """A source and a target, by the settings of `data`."""
    return Wanted(
        "a source and a target",
        "data.columns",
        choose=lambda names, path: choose_columns(names, data, path),
        find_layout=lambda rows, path: find_layout(rows, data, path),
    )


def find_layout(rows: Sequence[Sequence[str]], data: DataConfig, path: object) -> Layout:
    """Read the layout off the first rows of a tab- or comma-separated file.

    Args:
        rows: Some rows from the start of the file, not all of them blank.
        data: `columns`, `header`, and the languages' codes, which are names of columns too.
        path: For messages.

    Raises:
        DataError: If there is only one column, or `data.columns` names one that is not there.
    """
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    width = max((len(row) for row in filled), default=0)
    if width < 2:
        shown = filled[0][0].strip()[:60] if filled else ""
        raise DataError(
            f"{path}: has one column (it starts with {shown!r}), expected a source and a target separated by a tab; give two "
            "parallel files as FILE,FILE, or say what it is with data.format"
        )
    first = [cell.strip() for cell in filled[0]]
    numbered = len(first) > 1 and all(cell.isdigit() for cell in first)
    named = bool(data.columns) and not all(map(is_place, data.columns))
    if named and data.header == "no":
        raise DataError(f"{path}: data.columns gives names ({', '.join(data.columns)}), but data.header is 'no'; give numbers")
    if data.header == "yes" or (data.header == "auto" and (named or _is_header(first, data))):
        source, target = choose_columns(first, data, path)
        return Layout((source, target), (first[source] or str(source), first[target] or str(target)), HEADER)
    source, target = choose_columns([str(number) for number in range(width)], data, path)
    reason = COLUMN_NUMBERS if numbered and data.header == "auto" else None
    return Layout((source, target), (str(source), str(target)), reason)


def choose_columns(names: Sequence[str], data: DataConfig, path: object) -> tuple[int, int]:
    """The positions of the source and the target among the columns' names.

    Args:
        names: What the columns are called.
        data: `columns`, else the languages' codes and names, else what sources and targets are usually called; where
            nothing of that fits, the first two.
        path: For messages.

    Raises:
        DataError: If `data.columns` asks for a column that is not there, or for one twice; or if there is only one.
    """
    if len(names) < 2:
        raise DataError(f"{path}: its first line names {len(names)} column, expected a source and a target; is it a header?")
    if not data.columns:
        source = _find_side(names, data.source, SOURCE_NAMES)
        target = _find_side(names, data.target, TARGET_NAMES)
        return (source, target) if source is not None and target is not None and source != target else (0, 1)
    if len(data.columns) != 2:
        raise DataError(f"{path}: data.columns is {','.join(data.columns)}, expected two: the source's and the target's")
    source, target = (find_position(wanted, names, path) for wanted in data.columns)
    if source == target:
        raise DataError(f"{path}: data.columns {','.join(data.columns)} is one column twice, expected two different ones")
    return source, target


def find_position(wanted: str, names: Sequence[str], path: object) -> int:
    """The place of a column that is given by name or by number.

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


def _find_side(names: Sequence[str], language: str, usual: Sequence[str]) -> int | None:
    code = language.casefold()
    wanted = [code, LANGUAGES.get(code, code), *usual]
    folded = [name.casefold() for name in names]
    for name in wanted:
        if name in folded:
            return folded.index(name)
    endings = tuple(mark + name for mark in "._-" for name in wanted[:2])
    return next((position for position, name in enumerate(folded) if name.endswith(endings)), None)


def _is_header(cells: Sequence[str], data: DataConfig) -> bool:
    source, target = _find_side(cells, data.source, SOURCE_NAMES), _find_side(cells, data.target, TARGET_NAMES)
    if source is not None and target is not None and source != target:
        return True
    known = {*SOURCE_NAMES, *TARGET_NAMES, *LANGUAGES.values(), *OTHER_NAMES, data.source.casefold(), data.target.casefold()}
    # Codes count only as they are usually written: "Hi" and "No" are sentences.
    return sum(map(bool, cells)) > 1 and all(cell.casefold() in known or cell in LANGUAGES for cell in cells)
