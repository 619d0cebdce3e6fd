"""Reports on the data of a run: what was read, kept, held out, shortened and skipped."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from regard.plurals import counted
from regard.text.files.report import ReadingReport

WARN_OVERLAP = 0.1
"""Minimum share of the dev set in the training data for a warning."""


def warn_of_overlap(shared: int, total: int, what: str) -> list[str]:
    """Return a warning if a large share of the dev set is also in the training data; else an empty list.

    Args:
        shared: Number of dev examples that are also in the training data.
        total: Number of all dev examples.
        what: Kind of the examples: `pairs` or `texts`.
    """
    if not total or shared < max(WARN_OVERLAP * total, 1):
        return []
    part = (
        f"all {total:,} dev {what} are" if shared >= total else f"{shared:,} of {total:,} dev {what} ({shared / total:.0%}) are"
    )
    return [
        f"warning: {part} in the training data too, so validation shows what the model remembers, not what it has learned; "
        f"set data.dev to other files, or leave it empty to hold {what} out of the training data"
    ]


@dataclass(kw_only=True)
class PreparationReport:
    """What became of all the data of a run; a subclass for each kind of data adds its numbers."""

    unit: ClassVar[str]
    """What an example is, in the singular: `pair` or `text`."""
    apart: ClassVar[str]
    """What held-out examples do not share with the training data, for the report."""

    train: ReadingReport
    dev: ReadingReport | None
    """None if the dev examples were held out of the training files."""
    notes: list[str] = field(default_factory=list)
    symbols: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counts of the symbols in the training texts, by column (see `regard.text.tokenizers.counts`)."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of examples to train on and to validate on."""
        raise NotImplementedError

    def render_overlap(self) -> list[str]:
        """Return lines on what given dev files share with the training data; none if they share nothing."""
        raise NotImplementedError

    def render_counts(self) -> list[str]:
        """Return lines on the vocabulary, the tokens and the like."""
        raise NotImplementedError

    def render(self) -> str:
        """Return the report as a few lines for a terminal."""
        train, dev = self.sizes
        rows = [report.render() for report in (self.train, self.dev) if report]
        origin = "from their own files" if self.dev else f"held out; they share {self.apart} with training"
        rows.append(f"{counted(train, self.unit)} to train on, {dev:,} to validate on ({origin})")
        return "\n".join([*rows, *self.render_overlap(), *self.render_counts(), *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the report that `to_dict` was called on."""
        dev = ReadingReport.from_dict(plain["dev"]) if plain["dev"] else None
        return cls(**{**plain, "train": ReadingReport.from_dict(plain["train"]), "dev": dev})


@dataclass(kw_only=True)
class TextsReport(PreparationReport):
    """A report on data of which each example has one text."""

    unit = "text"
    apart = "no text"

    train_texts: int
    dev_texts: int
    vocabulary_size: int
    """Number of symbols, special ones included."""
    train_tokens: int
    overlap: int | None = None
    """Number of texts of given dev files that the training data has too; None without dev files."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of texts to train on and to validate on."""
        return self.train_texts, self.dev_texts

    def render_overlap(self) -> list[str]:
        """Return lines on texts that are in the dev and the training files; none if there are no such texts."""
        if not self.overlap:
            return []
        found = f"  of the dev texts, training holds {self.overlap:,} too"
        return [found, *warn_of_overlap(self.overlap, self.dev_texts, "texts")]
