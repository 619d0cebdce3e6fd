"""Scores of columns as the source or the target of sentence pairs."""

from collections.abc import Sequence

from regard.config import DataConfig
from regard.errors import DataError
from regard.text.files.columns import Column, TwoColumns, find_position
from regard.text.files.content import rate_text
from regard.text.files.names import (
    METADATA_SCORE,
    SOURCE,
    TARGET,
    find_language,
    find_languages,
    find_named_language,
    fold,
    is_metadata,
)

_LANGUAGE, _IN_LANGUAGE, _ANY_LANGUAGE, _OTHER_LANGUAGE = 8, 6, 5, -4
"""Scores of a column's name if it is the language of the side (source or target), if it contains this language among other
words, if it is any language and the settings name none for the side, and if it is another language."""
_PLAIN = frozenset(("text", "sentence", "score", "sentence 1", "sentence 2"))
"""Further names that columns of pairs may have."""
_LOOKS_RIGHT, _LOOKS_WRONG = 4, -2
"""Scores of a column's content: text in the language of the side (source or target), text in another language."""


class PairColumns(TwoColumns):
    """A source and a target column, as the settings of `data` describe them."""

    what = "a source and a target"
    sides = ("the source", "the target")
    settings = "data.columns"
    alike = True
    one_column = "give two parallel files as FILE,FILE"

    def __init__(self, data: DataConfig) -> None:
        self.data, self.header, self.encoding = data, data.header, data.encoding
        self._languages = (find_language(data.source), find_language(data.target))

    def given(self) -> tuple[str, str]:
        """Return the two names of `data.columns`, or two empty ones."""
        return (self.data.columns[0], self.data.columns[-1]) if self.data.columns else ("", "")

    def place_given(self, names: Sequence[str], path: object) -> tuple[int | None, int | None]:
        """Return the positions of `data.columns`."""
        columns = self.data.columns
        if not columns:
            return None, None
        if len(columns) != 2:
            raise DataError(f"{path}: data.columns is {','.join(columns)}, expected two: the source's and the target's")
        source, target = (find_position(name, names, path) for name in columns)
        if source == target:
            raise DataError(f"{path}: data.columns {','.join(columns)} names one column twice, expected two different columns")
        return source, target

    def scores(self, columns: Sequence[Column]) -> list[tuple[float, float]]:
        """Return each column's scores as the source and as the target, computed from its name, its content and its language."""
        return [(self._score(column, 0), self._score(column, 1)) for column in columns]

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if cells name the source and the target, or all are usual names.

        Codes of languages count only in lower case, because "Hi" and "No" are sentences. If two
        cells name the same language, all are taken for sentences too.
        """
        languages = [code for cell in first if (code := find_named_language(cell, codes=cell.islower()))]
        if len(set(languages)) < len(languages):
            return False
        sources, targets = ({place for place, cell in enumerate(first) if self._names_side(cell, side)} for side in (0, 1))
        if sources and targets and len(sources | targets) > 1:
            return True
        named = [fold(cell) in _PLAIN or self._names_any(cell) for cell in first]
        return any(named) and all(name or is_metadata(cell) for name, cell in zip(named, first, strict=True))

    def example(self, names: Sequence[str]) -> str:
        """Return the option `--data.columns` for two columns."""
        return (
            f"--data.columns '{','.join(names)}'" if any(" " in name for name in names) else f"--data.columns {','.join(names)}"
        )

    def is_header_of(self, cell: str, side: int) -> bool:
        """Return True if a line could be the header of the file of sources (side 0) or of targets (side 1)."""
        return bool(cell) and self._names_side(cell, side)

    def _score(self, column: Column, side: int) -> float:
        return self._rate_name(column.name, side) + rate_text(column.content) + _rate_language(column, self._languages[side])

    def _names_any(self, cell: str) -> bool:
        return self._names_side(cell, 0) or self._names_side(cell, 1) or bool(find_named_language(cell, codes=cell.islower()))

    def _names_side(self, cell: str, side: int) -> bool:
        names, setting = ((SOURCE, self.data.source), (TARGET, self.data.target))[side]
        if names.is_exact(cell) or cell.casefold() == setting.casefold():
            return True
        language = self._languages[side]
        if language is None:
            return find_named_language(cell, codes=cell.islower()) is not None
        return find_named_language(cell, codes=cell.islower()) == language or ("_" in cell and language in find_languages(cell))

    def _rate_name(self, name: str | None, side: int) -> float:
        if name is None:
            return 0
        names, setting = ((SOURCE, self.data.source), (TARGET, self.data.target))[side]
        language, other = self._languages[side], self._languages[1 - side]
        found = find_language(name)
        if name and (name.casefold() == setting.casefold() or (language and found == language)):
            return _LANGUAGE
        if names.is_exact(name):
            return names.rate(name)
        if is_metadata(name):
            return METADATA_SCORE
        if found:
            return _OTHER_LANGUAGE if language or found == other else _ANY_LANGUAGE
        inside = find_languages(name)
        if language and language in inside and other not in inside:
            return _IN_LANGUAGE
        return max(names.rate(name), _ANY_LANGUAGE if inside and not language else 0)


def _rate_language(column: Column, language: str | None) -> float:
    if not language or not column.language:
        return 0
    return _LOOKS_RIGHT if column.language == language else _LOOKS_WRONG
