"""The content of a column of a table, judged by some of its cells."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.text.files.names import is_unspaced

Kind = Literal["nothing", "numbers", "dates", "addresses", "codes", "one value", "licences", "lists", "words"]

ENOUGH = 3
"""Minimum number of cells for recognising codes."""
ENOUGH_TO_REPEAT = 5
"""Minimum number of cells for recognising a value that never changes."""
MANY = 20
"""Minimum number of cells for drawing conclusions from the number of different values."""

_MOST = 0.9
"""Minimum share of the cells that must be of one kind for the column to be of that kind."""
_NUMBER = re.compile(r"[-+]?[\d.,\u00a0'’]*\d(?:[eE][-+]?\d+)?\s?[%€$£]?")
_DATE = re.compile(
    r"\d{1,4}[-/.年]\s?\d{1,2}[-/.月]\s?\d{1,4}日?(?:[T ]?\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2})?"
    r"|(?:\w{3,9},? )?(?:\w{3,9}\.? \d{1,2},?|\d{1,2}\.? \w{3,9}\.?) (?:\d{2}:\d{2}:\d{2} (?:\w{1,5} )?)?\d{4}"
)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.]+", re.IGNORECASE)
_CODE = re.compile(r"(?=\S*\d)[\w:./#-]{2,}|[0-9a-fA-F-]{16,}", re.ASCII)
_LICENCE = re.compile(r"CC[- ]BY\b|\bCC0\b|#\d+ \(\w+\).*#\d+ \(\w+\)", re.IGNORECASE)
TEXT_SCORE, WORD_SCORE, NOT_TEXT_SCORE, LABEL_LIKE_SCORE = 3, 1, -6, -3
"""Scores of a column as a text: cells of several words, of one word, no words, and few values that repeat."""


@dataclass(frozen=True)
class Content:
    """Summary of some cells of a column."""

    count: int
    """Number of cells that are not empty."""
    kind: Kind
    distinct: int
    """Number of different values."""
    words: float
    """Mean number of words; in scripts without spaces between words, each letter counts as a word."""
    characters: float
    """Mean number of characters."""

    @property
    def repeats(self) -> bool:
        """Whether a few values fill many cells, as labels do."""
        return self.distinct * 3 <= self.count

    def describe(self) -> str:
        """Return a short description of the column, for messages."""
        if self.kind != "words":
            return self.kind
        if self.repeats and self.count >= MANY:
            return f"{self.distinct} different values"
        return "text" if self.words > 1.5 else "single words"


def describe_cells(cells: Sequence[object]) -> Content:
    """Summarise the content of a column.

    Args:
        cells: Some of its values: strings; in formats whose values have types, also numbers, lists and booleans.
    """
    if any(isinstance(cell, list) for cell in cells):
        return Content(len(cells), "lists", len(cells), 0.0, 0.0)
    texts = [text for cell in cells if cell is not None and (text := str(cell).strip())]
    if not texts:
        return Content(0, "nothing", 0, 0.0, 0.0)
    counts = Counter(texts)
    words = sum(map(_count_words, texts)) / len(texts)
    return Content(len(texts), _find_kind(texts, len(counts)), len(counts), words, sum(map(len, texts)) / len(texts))


def rate_text(content: Content) -> float:
    """Return the score of a column as a text: highest if cells have several words and do not repeat a few values."""
    if content.kind == "nothing":
        return 0
    if content.kind != "words":
        # Two cells may be numbers by chance.
        return NOT_TEXT_SCORE if content.count > 2 else -1
    if content.count >= 30 and content.distinct * 10 <= content.count:
        return LABEL_LIKE_SCORE
    return TEXT_SCORE if content.words > 1.5 else WORD_SCORE


def is_number(cell: str) -> bool:
    """Return True if a cell holds a number."""
    return bool(_NUMBER.fullmatch(cell.strip())) or cell.strip().lower() in ("nan", "inf", "-inf")


def is_code(cell: str) -> bool:
    """Return True if a cell is written like a code (`A-17`, `user_3`), as some names of columns are too."""
    return bool(_CODE.fullmatch(cell.strip()))


def is_mark(cell: str) -> bool:
    """Return True if a cell holds a number, a date or an address, which a header never holds."""
    cell = cell.strip()
    return is_number(cell) or bool(_DATE.fullmatch(cell) or _ADDRESS.fullmatch(cell))


def _count_words(text: str) -> int:
    unspaced = sum(map(is_unspaced, text)) if not text.isascii() else 0
    return max(len(text.split()), unspaced)


def _find_kind(texts: Sequence[str], distinct: int) -> Kind:
    needed = _MOST * len(texts)
    if len(texts) >= ENOUGH_TO_REPEAT and distinct == 1:
        return "one value"
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("numbers", _NUMBER),
        ("dates", _DATE),
        ("addresses", _ADDRESS),
        ("codes", _CODE),
    )
    for kind, pattern in kinds:
        if sum(map(bool, map(pattern.fullmatch, texts))) >= needed and (kind != "codes" or len(texts) >= ENOUGH):
            return kind
    if sum(map(bool, map(_LICENCE.search, texts))) >= needed:
        return "licences"
    return "words"
