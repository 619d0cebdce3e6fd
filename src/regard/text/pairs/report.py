"""What became of all the sentence pairs of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.plurals import counted
from regard.text.files.report import ReadingReport, warn_of_overlap

REPEAT = "exact repeat of an earlier pair"
TOO_MANY_TOKENS = "more tokens than max_tokens"
BEHIND_MAX_PAIRS = "behind the first max_pairs pairs"


@dataclass
class Overlap:
    """How many dev pairs training has seen; they are kept, since the files were given so."""

    pairs: int = 0
    sources: int = 0
    targets: int = 0


@dataclass
class PreparationReport:
    """What became of all the data of a run."""

    train: ReadingReport
    dev: ReadingReport | None
    """None where the dev pairs were held out of the training file."""
    train_pairs: int
    dev_pairs: int
    source_size: int
    """Symbols of the source vocabulary."""
    target_size: int
    train_tokens: tuple[int, int]
    """Source and target tokens of training, end symbols included."""
    overlap: Overlap | None = None
    """Where dev files were given: what they share with training."""
    notes: list[str] = field(default_factory=list)
    symbols: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counts of the symbols in the training texts, by side (see `regard.text.tokenizers.counts`)."""

    def render(self) -> str:
        """The report as a few lines for a terminal."""
        rows = [self.train.render()]
        if self.dev:
            rows.append(self.dev.render())
        origin = "from their own files" if self.dev else "held out; they share no source and no target with training"
        rows.append(f"{counted(self.train_pairs, 'pair')} to train on, {self.dev_pairs:,} to validate on ({origin})")
        if self.overlap and self.overlap.sources + self.overlap.targets:
            rows.append(
                f"  of the dev pairs, training holds {self.overlap.pairs:,} whole, "
                f"{self.overlap.sources:,} by their source and {self.overlap.targets:,} by their target"
            )
            rows += warn_of_overlap(self.overlap.pairs, self.dev_pairs, "pairs")
        tokens = " and ".join(f"{count:,}" for count in self.train_tokens)
        rows.append(f"vocabularies of {self.source_size:,} and {self.target_size:,} symbols; {tokens} tokens")
        return "\n".join(rows + self.notes)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "PreparationReport":
        """The report that `to_dict` was called on."""
        rest = {key: value for key, value in plain.items() if key not in ("train", "dev", "overlap", "train_tokens")}
        return cls(
            train=ReadingReport.from_dict(plain["train"]),
            dev=ReadingReport.from_dict(plain["dev"]) if plain["dev"] else None,
            overlap=Overlap(**plain["overlap"]) if plain["overlap"] else None,
            train_tokens=(plain["train_tokens"][0], plain["train_tokens"][1]),
            **rest,
        )
