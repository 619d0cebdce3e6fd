"""Ranges of numbers in settings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """The numbers that a setting may have."""

    words: str
    """Description of the expected values, for an error."""
    low: float = 0.0
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Return whether a number is in the range."""
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


ANY = Range("a finite number", low=float("-inf"))
NOT_NEGATIVE = Range("0 or more")
POSITIVE = Range("more than 0", open_low=True)
COUNT = Range("1 or more", low=1)
BELOW_ONE = Range("0 or more and less than 1", high=1, open_high=True)
