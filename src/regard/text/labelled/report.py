"""What became of all the labelled data of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.plurals import counted
from regard.text.files.report import ReadingReport, warn_of_overlap

_SHOWN = 12


@dataclass
class LabelledReport:
    """What was read, kept, held out, cut and skipped."""

    train: ReadingReport
    dev: ReadingReport | None
    """None where the dev texts were held out of the training files."""
    train_texts: int
    dev_texts: int
    vocabulary_size: int
    """Symbols, special ones included."""
    train_tokens: int
    train_counts: dict[str, int]
    """Texts with each label in training."""
    dev_counts: dict[str, int]
    truncated: int
    """Texts of more than `max_tokens` tokens, in training and dev, of which the first were taken."""
    overlap: int | None = None
    """Where dev files were given: how many of their texts training holds too."""
    notes: list[str] = field(default_factory=list)
    symbols: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counts of the symbols in the training texts, by side (see `regard.text.tokenizers.counts`)."""

    def render(self) -> str:
        """The report as a few lines for a terminal."""
        rows = [self.train.render()]
        if self.dev:
            rows.append(self.dev.render())
        origin = "from their own files" if self.dev else "held out; they share no text with training"
        rows.append(f"{counted(self.train_texts, 'text')} to train on, {self.dev_texts:,} to validate on ({origin})")
        if self.overlap:
            rows.append(f"  of the dev texts, training holds {self.overlap:,} too")
            rows += warn_of_overlap(self.overlap, self.dev_texts, "texts")
        rows.append(f"{counted(len(self.train_counts), 'label')}: {self._shares()}")
        rows.append(f"vocabulary of {counted(self.vocabulary_size, 'symbol')}; {counted(self.train_tokens, 'token')}")
        return "\n".join(rows + self.notes)

    def _shares(self) -> str:
        total = max(self.train_texts, 1)
        common = sorted(self.train_counts.items(), key=lambda item: -item[1])
        shown = [f"{name} {count:,} ({count / total:.1%})" for name, count in common[:_SHOWN]]
        return ", ".join(shown) + (f", …, {common[-1][0]} {common[-1][1]:,}" if len(common) > _SHOWN else "")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "LabelledReport":
        """The report that `to_dict` was called on."""
        rest = {key: value for key, value in plain.items() if key not in ("train", "dev")}
        dev = ReadingReport.from_dict(plain["dev"]) if plain["dev"] else None
        return cls(train=ReadingReport.from_dict(plain["train"]), dev=dev, **rest)
