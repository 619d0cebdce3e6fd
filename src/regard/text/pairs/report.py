"""What became of all the sentence pairs of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from regard.text.report import PreparationReport, warn_of_overlap

REPEAT = "exact repeat of an earlier pair"
TOO_MANY_TOKENS = "more tokens than max_tokens"
BEHIND_MAX_PAIRS = "behind the first max_pairs pairs"


@dataclass
class Overlap:
    """Number of dev pairs that the training data has too. They are kept, because the user gave these files."""

    pairs: int = 0
    sources: int = 0
    targets: int = 0


@dataclass(kw_only=True)
class PairReport(PreparationReport):
    """A report on sentence pairs."""

    unit = "pair"
    apart = "no source and no target"

    train_pairs: int
    dev_pairs: int
    source_size: int
    """Number of symbols in the source vocabulary."""
    target_size: int
    train_tokens: tuple[int, int]
    """Number of source and target tokens in training, end symbols included."""
    overlap: Overlap | None = None
    """What given dev files share with the training data; None without dev files."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of pairs to train on and to validate on."""
        return self.train_pairs, self.dev_pairs

    def render_overlap(self) -> list[str]:
        """Return lines on pairs that are in the dev and the training files; none if they share nothing."""
        if not self.overlap or not self.overlap.sources + self.overlap.targets:
            return []
        found = (
            f"  of the dev pairs, training holds {self.overlap.pairs:,} whole, "
            f"{self.overlap.sources:,} by their source and {self.overlap.targets:,} by their target"
        )
        return [found, *warn_of_overlap(self.overlap.pairs, self.dev_pairs, "pairs")]

    def render_counts(self) -> list[str]:
        """Return a line on the vocabularies and the tokens."""
        tokens = " and ".join(f"{count:,}" for count in self.train_tokens)
        return [f"vocabularies of {self.source_size:,} and {self.target_size:,} symbols; {tokens} tokens"]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the report that `to_dict` was called on."""
        overlap = Overlap(**plain["overlap"]) if plain["overlap"] else None
        source, target = plain["train_tokens"]
        return super().from_dict({**plain, "overlap": overlap, "train_tokens": (source, target)})
