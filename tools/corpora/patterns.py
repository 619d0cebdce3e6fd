"""A sentence pattern: an English and a German template, and tables that fill their slots. Its sentences are numbered."""

import re
from math import gcd, prod
from random import Random
from typing import Any

from tools.corpora.frames import Slot
from tools.corpora.marks import strip

_FIELD = re.compile(r"\{(\w)\.(\w+)\}")


class Pattern:
    """All sentence pairs that an English and a German template give.

    Args:
        source: The English template with marks (see `marks`).
        target: The German template with marks.
        slots: The slots of both templates; a slot that depends on another must come after it.
    """

    def __init__(self, source: str, target: str, slots: tuple[Slot, ...]) -> None:
        self.marked_source, self.marked_target = source, target
        self.source, self.target = strip(source), strip(target)
        self.slots = slots
        self.size = prod(len(slot.tables[0]) for slot in slots)
        self._plain = [(s.name, [table.plain for table in s.tables], s.by, s.attribute, len(s.tables[0])) for s in slots]
        self._marked = [(s.name, [table.rows for table in s.tables], s.by, s.attribute, len(s.tables[0])) for s in slots]

    @property
    def longest(self) -> int:
        """Upper bound of the number of words in a sentence, English or German."""
        return max(self._bound(self.source), self._bound(self.target))

    def _bound(self, template: str) -> int:
        tables = {slot.name: slot.tables for slot in self.slots}
        longest = (max(table.longest(field) for table in tables[name]) for name, field in _FIELD.findall(template))
        return len(_FIELD.sub(" ", template).split()) - 1 + sum(longest)

    @property
    def key(self) -> tuple[object, ...]:
        """Return the key that identifies a pattern."""
        return (self.source, self.target, self.slots)

    def multiplier(self, random: Random) -> int:
        """Return a random number coprime to the number of sentences, to scramble their order."""
        while True:
            number = random.randrange(1, self.size + 1)
            if gcd(number, self.size) == 1:
                return number

    def rows(self, rank: int, *, marked: bool = False) -> dict[str, Any]:
        """Return the rows that fill the slots of sentence pair number `rank`, with marks if `marked` is True.

        `rank` is read as a number with one digit for each slot; the base of a digit is the size of the slot's tables (a mixed
        radix). The digit is the index of the row.
        """
        rows: dict[str, Any] = {}
        for name, tables, by, attribute, size in self._marked if marked else self._plain:
            rank, digit = divmod(rank, size)
            rows[name] = (tables[getattr(rows[by], attribute)] if by else tables[0])[digit]
        return rows

    def text(self, rank: int) -> tuple[str, str]:
        """Return the sentence pair number `rank`."""
        rows = self.rows(rank)
        source, target = self.source.format(**rows), self.target.format(**rows)
        return source[0].upper() + source[1:], target[0].upper() + target[1:]
