"""Phrases with marks for their word alignment.

A marked text is a text whose words may carry marks: `the|d old|a man|n`. An English and a German word with a common mark have a
sure link. A mark after `~` makes a possible link, in the sense of Och & Ney (2003). Several marks are joined by `+`:
`gesehen|v+~x`. In a phrase, `#` stands for the slot that the phrase fills, so that two noun phrases of a sentence have
different marks: `the|#d man|#n` in slot s becomes `the|sd man|sn`. The same code builds a sentence from plain phrases (fast)
or, if the alignment is needed, from marked ones.
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
    """One word of a marked sentence: `sure` contains its marks that had no `~`, and `possible` all its marks."""

    text: str
    sure: frozenset[str]
    possible: frozenset[str]


def strip(text: str) -> str:
    """Remove the marks: `the|d man|n` → `the man`."""
    return _MARK.sub("", text)


def strip_row(row: Row) -> Row:
    """Remove the marks from every text of a phrase."""
    return type(row)(*(strip(field) if isinstance(field, str) else field for field in row))


def name_row(row: Row, slot: str) -> Row:
    """Insert the name of the slot into the marks of a phrase."""
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
        The sure links, and all links including the sure ones, as (source index, target index).
    """
    sure, possible = set(), set()
    for i, word in enumerate(source):
        for j, other in enumerate(target):
            if word.possible & other.possible:
                possible.add((i, j))
                if word.sure & other.sure:
                    sure.add((i, j))
    return frozenset(sure), frozenset(possible)
