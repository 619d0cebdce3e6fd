"""Which columns of a table hold a source and a target, or a text and a label, judged by their names."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.resources import files

from regard.config import CaptionDataConfig, DataConfig, LabelledDataConfig, TaggedDataConfig
from regard.errors import DataError
from regard.scripts import is_spaceless
from regard.text.content import Content
from regard.text.languages import find_language, find_languages, find_named_language, fold

CERTAIN, USUAL, POSSIBLE = 8, 6, 3
"""Ranks of names that are certain, usual and possible names of a wanted column."""
INSIDE = {CERTAIN: 5, USUAL: 4, POSSIBLE: 2}
"""Ranks of names that contain such a name among other words."""
NEVER = -1
"""Rank of names of other columns: row numbers, dates, authors, another language."""
# Ranks of names that are the language of a side, contain it, or are any language if the settings name none.
_OF_SIDE, _CONTAINS_SIDE, _ANY_LANGUAGE = 8, 6, 6
# Rank of names such as `label_id` as the name of a label.
_LABEL_NUMBER = 1
_LONGEST_LABEL_WORDS = 8


class Names:
    """Known names of the columns with a role, such as `label`, in three tiers: certain, usual, and possible names."""

    def __init__(self, role: str) -> None:
        self._role = role

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each known name, read from `column_names.txt`."""
        lines = (files("regard.text") / "column_names.txt").read_text(encoding="utf-8").splitlines()
        tiers = next(line.split(" | ")[1:] for line in lines if line.startswith(f"{self._role} | "))
        ranked = reversed(list(zip((CERTAIN, USUAL, POSSIBLE), tiers, strict=False)))  # the most certain rank counts
        return {fold(word): rank for rank, words in ranked for word in words.split()}

    def rank(self, name: str) -> int:
        """Return the rank of a column's name; 0 if it contains none of the names."""
        folded = fold(name)
        if folded in self.ranks:
            return self.ranks[folded]
        inside = [self.ranks[word] for word in folded.split() if word in self.ranks]
        if not folded.isascii():  # 评论内容 has no spaces between words
            inside += [rank for word, rank in self.ranks.items() if len(word) > 1 and is_spaceless(word) and word in folded]
        return INSIDE[max(inside)] if inside else 0

    def is_exact(self, name: str, least: int = POSSIBLE) -> bool:
        """Return True if a column's name is one of the names, with at least the given rank."""
        return self.ranks.get(fold(name), 0) >= least


TEXT, LABEL, SOURCE, TARGET, IMAGE, METADATA = map(Names, ("text", "label", "source", "target", "image", "metadata"))
WORD, TAG = map(Names, ("word", "tag"))
# Further names that columns of pairs may have.
_PLAIN = frozenset(("text", "sentence", "score", "sentence 1", "sentence 2"))


def is_metadata(name: str) -> bool:
    """Return True if a column's name is empty, or has a word which says that the column is neither a text nor a label."""
    folded = fold(name)
    return not folded or any(word in METADATA.ranks for word in folded.split())


def rate_text(content: Content) -> int:
    """Return how well a column fits texts: 2 for texts of several words, 1 for single words, 0 for other values."""
    # A few values that repeat often are no texts.
    if content.kind != "words" or (content.count >= 30 and content.distinct * 10 <= content.count):
        return 0
    return 2 if content.words > 1.5 else 1


def rate_label(content: Content) -> int:
    """Return how well a column fits labels: 2 for lists and values that repeat, 1 for other short values, 0 for all others."""
    # A constant column repeats too, because it may be the label of a file that is sorted by label.
    if content.kind in ("dates", "addresses", "licences", "nothing") or content.words > _LONGEST_LABEL_WORDS:
        return 0
    if content.kind in ("lists", "one value") or (content.repeats and content.count > 2):
        return 2
    return 0 if content.varies else 1


class ColumnRules(ABC):
    """The two columns to look for in a table: their names, their content, and the settings that choose them.

    `given` are the two columns that the settings name; an empty string for a column that they don't name.
    """

    what: str
    sides: tuple[str, str]
    """Names of the columns in messages: `the source` and `the target`; `what` is `a source and a target`."""
    settings: str
    """The settings that choose columns: one for both, or two joined by `and`."""
    kinds: tuple[type, ...]
    allowed: str
    """Description of the allowed `kinds` of values, in formats whose values have types."""
    one_column: str
    """Advice for files with only one column."""
    formats: str
    """Formats that such a file may have."""
    rates: tuple[Callable[[Content], int], Callable[[Content], int]]
    """How well the content of a column fits each side, from 0 to 2."""
    in_order: bool
    """Whether two columns that fit both sides equally well are taken in their order, the source first. A line then only needs
    the columns up to the last wanted one; otherwise it needs all columns.
    """

    def __init__(self, data: DataConfig | LabelledDataConfig | CaptionDataConfig, given: tuple[str, str]) -> None:
        self.header, self.encoding, self.given = data.header, data.encoding, given

    @abstractmethod
    def rank(self, name: str, side: int) -> int:
        """Return the rank of a name as that of the first (0) or the second (1) column; `NEVER` for names of other columns."""

    @abstractmethod
    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if the cells of a row are usual names of columns."""

    def example(self, names: Sequence[str]) -> str:
        """Return the command-line options that choose two columns by name or number, for messages."""
        options = self.settings.split(" and ")
        values = [f"'{value}'" if " " in value else value for value in (names if len(options) == 2 else [",".join(names)])]
        return " ".join(f"--{option} {value}" for option, value in zip(options, values, strict=True))


class LabelledColumns(ColumnRules):
    """A text and a label column, as the settings of `data` describe them."""

    what = "a text and a label"
    sides = ("the text", "the label")
    settings = "data.text and data.label"
    kinds = (str, bool, int, float, list)
    allowed = "text, a number, true or false, or an array of these"
    one_column = "give one text file for each label"
    formats = "csv, jsonl or fasttext"
    rates = (rate_text, rate_label)
    in_order = False

    def __init__(self, data: LabelledDataConfig) -> None:
        super().__init__(data, (data.text, data.label))

    def rank(self, name: str, side: int) -> int:
        names, other = ((TEXT, LABEL), (LABEL, TEXT))[side]
        if names.is_exact(name):
            return names.rank(name)
        if is_metadata(name):
            return _LABEL_NUMBER if side == 1 and LABEL.rank(name) else NEVER
        return NEVER if other.is_exact(name) else names.rank(name)

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if a cell is a usual name of texts or labels, two cells contain a name of each, or all name metadata."""
        if any(TEXT.is_exact(cell, USUAL) or LABEL.is_exact(cell, USUAL) for cell in first):
            return True
        texts, labels = ({place for place, cell in enumerate(first) if names.rank(cell) > 0} for names in (TEXT, LABEL))
        return (bool(texts) and bool(labels) and len(texts | labels) > 1) or all(map(is_metadata, first))


class PairColumns(ColumnRules):
    """A source and a target column, as the settings of `data` describe them."""

    what = "a source and a target"
    sides = ("the source", "the target")
    settings = "data.columns"
    kinds = (str,)
    allowed = "text"
    one_column = "give two parallel files as FILE,FILE"
    formats = "csv, jsonl or fast_align"
    rates = (rate_text, rate_text)
    in_order = True

    def __init__(self, data: DataConfig) -> None:
        if len(data.columns) not in (0, 2):
            raise DataError(f"data.columns is {','.join(data.columns)}, expected two: the source's and the target's")
        super().__init__(data, (data.columns[0], data.columns[1]) if data.columns else ("", ""))
        self.languages = (find_language(data.source), find_language(data.target))
        self._settings = (data.source.casefold(), data.target.casefold())

    def rank(self, name: str, side: int) -> int:
        names, language, other = (SOURCE, TARGET)[side], self.languages[side], self.languages[1 - side]
        found, inside = find_language(name), find_languages(name)
        if name and (name.casefold() == self._settings[side] or (language and found == language)):
            return _OF_SIDE
        if names.is_exact(name):
            return names.rank(name)
        if is_metadata(name) or (found and (language or found == other)):
            return NEVER
        if language and language in inside and other not in inside:
            return _CONTAINS_SIDE
        if language and inside:
            return NEVER if names.rank(name) <= 0 else names.rank(name)
        return max(names.rank(name), _ANY_LANGUAGE if inside else 0)

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if cells name the source and the target, or all are usual names."""
        # If two cells name the same language, all are taken for sentences.
        languages = list(map(find_named_language, first))
        if any(languages.count(code) > 1 for code in filter(None, languages)):
            return False
        sources, targets = ({place for place, cell in enumerate(first) if self.names_side(cell, side)} for side in (0, 1))
        if sources and targets and len(sources | targets) > 1:
            return True
        named = [
            fold(cell) in _PLAIN or place in sources | targets or bool(languages[place]) for place, cell in enumerate(first)
        ]
        return any(named) and all(name or is_metadata(cell) for name, cell in zip(named, first, strict=True))

    def names_side(self, cell: str, side: int) -> bool:
        """Return True if a cell could be the header of the sources (side 0) or of the targets (side 1)."""
        if not cell or (SOURCE, TARGET)[side].is_exact(cell) or cell.casefold() == self._settings[side]:
            return bool(cell)
        named, language = find_named_language(cell), self.languages[side]
        if language is None:
            return named is not None
        return named == language or ("_" in cell and language in find_languages(cell))


class CaptionColumns(ColumnRules):
    """A column of image files and a column of texts, as the settings of `data` describe them."""

    what = "an image and a text"
    sides = ("the image", "the text")
    settings = "data.columns"
    kinds = (str,)
    allowed = "text"
    one_column = "add a column with the text of each image"
    formats = "csv or jsonl"
    rates = (lambda content: 1, rate_text)
    in_order = True

    def __init__(self, data: CaptionDataConfig) -> None:
        if len(data.columns) not in (0, 2):
            raise DataError(f"data.columns is {','.join(data.columns)}, expected two: the image's and the text's")
        super().__init__(data, (data.columns[0], data.columns[1]) if data.columns else ("", ""))

    def rank(self, name: str, side: int) -> int:
        names, other = ((IMAGE, TEXT), (TEXT, IMAGE))[side]
        if names.is_exact(name):
            return names.rank(name)
        return NEVER if is_metadata(name) or other.is_exact(name) else names.rank(name)

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if a cell is a usual name of images, and another one of texts."""
        images, texts = ({place for place, cell in enumerate(first) if names.is_exact(cell)} for names in (IMAGE, TEXT))
        return bool(images) and bool(texts) and len(images | texts) > 1


class TaggedColumns(ColumnRules):
    """A column with lists of words and one with lists of tags, as the settings of `data` describe them."""

    what = "a list of words and a list of their tags"
    sides = ("the words", "the tags")
    settings = "data.columns"
    kinds = (list,)
    allowed = "an array of text"
    one_column = "add a column with the tags of the words"
    formats = "conll or jsonl"
    rates = (lambda content: 1, lambda content: 1)
    in_order = False

    def __init__(self, data: TaggedDataConfig) -> None:
        self.header, self.encoding = "yes", data.encoding
        self.given = (data.columns[0], data.columns[1]) if data.columns else ("", "")

    def rank(self, name: str, side: int) -> int:
        names, other = ((WORD, TAG), (TAG, WORD))[side]
        return NEVER if other.is_exact(name) else names.rank(name) if names.is_exact(name) else 0

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True: formats with lists always name their columns."""
        return True
