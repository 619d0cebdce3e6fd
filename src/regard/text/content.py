"""The content of a column of a table, judged by some of its cells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.scripts import is_spaceless

Kind = Literal["nothing", "numbers", "dates", "addresses", "codes", "one value", "licences", "lists", "words"]

# Minimum number of cells for recognising a value that never changes.
_ENOUGH_TO_REPEAT = 5
MANY = 20
"""Minimum number of cells for drawing conclusions from the number of different values."""

# Minimum share of the cells that must be of one kind for the column to be of that kind.
_MOST = 0.9
_NUMBER = re.compile(r"[-+]?[\d.,\u00a0'’]*\d(?:[eE][-+]?\d+)?\s?[%€$£]?")
_DATE = re.compile(
    r"\d{1,4}[-/.年]\s?\d{1,2}[-/.月]\s?\d{1,4}日?(?:[T ]?\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2})?"
    r"|(?:\w{3,9},? )?(?:\w{3,9}\.? \d{1,2},?|\d{1,2}\.? \w{3,9}\.?) (?:\d{2}:\d{2}:\d{2} (?:\w{1,5} )?)?\d{4}"
)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.]+", re.IGNORECASE)
_CODE = re.compile(r"(?=\S*\d)[\w:./#-]{2,}|[0-9a-fA-F-]{16,}", re.ASCII)
_LICENCE = re.compile(r"CC[- ]BY\b|\bCC0\b|#\d+ \(\w+\).*#\d+ \(\w+\)", re.IGNORECASE)
_KINDS: dict[Kind, re.Pattern[str]] = {
    "numbers": _NUMBER, "dates": _DATE, "addresses": _ADDRESS, "codes": _CODE,
}  # fmt: skip


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

    @property
    def repeats(self) -> bool:
        """Whether a few values fill many cells, as labels do."""
        return self.distinct * 3 <= self.count

    @property
    def varies(self) -> bool:
        """Whether there are many values and nearly all differ, so that they are not labels."""
        return self.count >= MANY and self.distinct > _MOST * self.count

    def describe(self) -> str:
        """Return a short description of the column, for messages."""
        if self.kind != "words":
            return self.kind
        if self.repeats and self.count >= MANY:
            return f"{self.distinct} different values"
        return "text" if self.words > 1.5 else "single words"


def describe_cells(cells: Sequence[object]) -> Content:
    """Summarise some values of a column: strings, or, in formats with types, also numbers, lists and booleans."""
    if any(isinstance(cell, list) for cell in cells):
        return Content(len(cells), "lists", len(cells), 0.0)
    if any(isinstance(cell, dict) for cell in cells):
        return Content(0, "nothing", 0, 0.0)
    texts = [text for cell in cells if cell is not None and (text := str(cell).strip())]
    words = sum(map(_count_words, texts)) / max(len(texts), 1)
    return Content(len(texts), _find_kind(texts), len(set(texts)), words)


def _find_kind(texts: Sequence[str]) -> Kind:
    needed = _MOST * len(texts)
    if not texts:
        return "nothing"
    if len(texts) >= _ENOUGH_TO_REPEAT and len(set(texts)) == 1:
        return "one value"
    for kind, pattern in _KINDS.items():
        if sum(map(bool, map(pattern.fullmatch, texts))) >= needed and (kind != "codes" or len(texts) > 2):
            return kind
    return "licences" if sum(map(bool, map(_LICENCE.search, texts))) >= needed else "words"


def _count_words(text: str) -> int:
    return max(len(text.split()), sum(map(is_spaceless, text)) if is_spaceless(text) else 0)


def is_code(cell: str) -> bool:
    """Return True if a cell is written like a code (`A-17`, `user_3`); some names of columns are, too."""
    return bool(_CODE.fullmatch(cell.strip()))


def is_value(cell: str) -> bool:
    """Return True if a cell holds a number, a date or an address, which a header never holds."""
    cell = cell.strip()
    number = _NUMBER.fullmatch(cell) or cell.lower() in ("nan", "inf", "-inf")
    return bool(number or _DATE.fullmatch(cell) or _ADDRESS.fullmatch(cell))
