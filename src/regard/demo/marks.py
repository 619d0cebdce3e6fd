"""Phrases that carry their word alignment with them.

A marked text is a text whose words may carry marks: `the|d old|a man|n`. A word of the English side and one of the German
side are aligned for sure when they share a mark; a mark behind `~` makes a link that is only possible, in the sense of
Och & Ney (2003). Several marks are joined by `+`: `gesehen|v+~x`. In a phrase `#` stands for the slot that the phrase fills,
so that two noun phrases of a sentence do not mix: `the|#d man|#n` in slot s becomes `the|sd man|sn`. A sentence is built
twice by the same code, plain from plain phrases (fast) and marked from marked ones (when the alignment is asked for).
"""

import re
from typing import NamedTuple, TypeVar

_MARK = re.compile(r"\|[\w~+#]+")
_TOKEN = re.compile(r"(\w+|[.,?!])(?:\|([\w~+]+))?")
Row = TypeVar("Row", bound=tuple)


class Words(NamedTuple):
    """A fixed phrase: an adverbial, a conjunction, a prepositional phrase."""

    en: str
    de: str


class MarkedWord(NamedTuple):
    """One word of a marked sentence: `sure` and `possible` are its marks."""

    text: str
    sure: frozenset[str]
    possible: frozenset[str]


def strip(text: str) -> str:
    """Take the marks off: `the|d man|n` → `the man`."""
    return _MARK.sub("", text)


def strip_row(row: Row) -> Row:
    """Take the marks off every text of a phrase."""
    return type(row)(*(strip(field) if isinstance(field, str) else field for field in row))


def name_row(row: Row, slot: str) -> Row:
    """Write the name of its slot into the marks of a phrase."""
    return type(row)(*(field.replace("#", slot) if isinstance(field, str) else field for field in row))


def read_marks(text: str) -> list[MarkedWord]:
    """Split a marked sentence into its words and punctuation marks, each with its marks."""
    words = []
    for surface, marks in _TOKEN.findall(text):
        names = marks.split("+") if marks else []
        sure = frozenset(name for name in names if name[0] != "~")
        words.append(MarkedWord(surface, sure, frozenset(name.removeprefix("~") for name in names)))
    return words


def align(source: list[MarkedWord], target: list[MarkedWord]) -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
    """Link the words that share a mark.

    Returns:
        The sure and the possible links as (source index, target index), the sure ones among the possible.
    """
    sure, possible = set(), set()
    for i, word in enumerate(source):
        for j, other in enumerate(target):
            if word.possible & other.possible:
                possible.add((i, j))
                if word.sure & other.sure:
                    sure.add((i, j))
    return frozenset(sure), frozenset(possible)
