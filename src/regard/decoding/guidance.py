"""Constraints of targets: words that they must begin with, and phrases that they must contain."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import RequestError
from regard.text.symbols import END, PAD, START

_NEVER = frozenset((PAD, START, END))


@dataclass(frozen=True)
class Guidance:
    """Constraints of the targets of B sentences."""

    prefixes: Sequence[Sequence[int]]
    """For each sentence, ids of the words that its target must begin with; an empty list for none."""
    phrases: Sequence[Sequence[Sequence[int]]]
    """For each sentence, phrases that its target must contain, as ids of one or more words. In the target, they do not overlap,
    and a phrase given twice occurs twice.
    """
    continues: Bool[Tensor, " V"] | None = None
    """True for tokens that continue the previous word; None if any token may follow a phrase. A token that is True may not
    follow a phrase, because it would extend the last word of the phrase.
    """

    def __post_init__(self) -> None:
        if len(self.prefixes) != len(self.phrases):
            raise RequestError(
                f"Guidance got {len(self.prefixes)} prefixes and {len(self.phrases)} lists of phrases, expected one of each "
                "for every sentence"
            )
        for number, (prefix, phrases) in enumerate(zip(self.prefixes, self.phrases, strict=True), 1):
            if any(not len(phrase) for phrase in phrases):
                raise RequestError(f"sentence {number} has a constraint without a word: leave it out")
            if not _NEVER.isdisjoint([*prefix, *(word for phrase in phrases for word in phrase)]):
                raise RequestError(f"the prefix or a constraint of sentence {number} contains a padding, start or end symbol")

    @property
    def constrains(self) -> bool:
        """Whether a target must contain phrases."""
        return any(map(len, self.phrases))

    def room(self, device: torch.device) -> Int[Tensor, " B"]:
        """Return for each target the number of words in its prefix and its phrases together."""
        pairs = zip(self.prefixes, self.phrases, strict=True)
        return torch.tensor([len(prefix) + sum(map(len, phrases)) for prefix, phrases in pairs], device=device)

    def prefix(self, device: torch.device) -> Int[Tensor, "B P"]:
        """Return the prefixes as one tensor, filled with padding."""
        return padded(self.prefixes).to(device)


def padded(rows: Sequence[Sequence[int]]) -> Int[Tensor, "R L"]:
    """Return the lists of words as one tensor, filled with padding."""
    longest = max(map(len, rows), default=0)
    whole = [[*map(int, row), *[PAD] * (longest - len(row))] for row in rows]
    return torch.tensor(whole, dtype=torch.int64).view(len(rows), longest)
