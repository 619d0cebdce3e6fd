"""Reports on all the data of a run: what was kept, held out, truncated and learned."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from regard.plurals import counted
from regard.text.report import ReadingReport

WARN_OVERLAP = 0.1
"""A warning is given if at least this share of the dev examples is also in the training data."""
_LABELS_SHOWN = 12


@dataclass(kw_only=True)
class PreparationReport:
    """Report on all the data of a run; a subclass for each kind of data adds its numbers."""

    unit: ClassVar[str]
    """Name of an example, in the singular: `pair` or `text`."""
    apart: ClassVar[str]
    """Words that complete the sentence "held-out examples share … with training" in messages, such as `no text`."""

    train: ReadingReport
    dev: ReadingReport | None
    """Report on the dev files; None if the dev examples were held out of the training files."""
    notes: list[str] = field(default_factory=list)
    symbols: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counts of the symbols in the training texts, by column (see `regard.text.tokenizers.counts`)."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of examples to train on and to validate on."""
        return getattr(self, f"train_{self.unit}s"), getattr(self, f"dev_{self.unit}s")

    @property
    def shared(self) -> tuple[int, str]:
        """Number of examples in dev files that are also in the training data, and a line about them; 0 without dev files."""
        raise NotImplementedError

    def render_counts(self) -> list[str]:
        """Return lines on the vocabulary and the tokens."""
        raise NotImplementedError

    def render(self) -> str:
        """Return the report as a few lines for a terminal."""
        train, dev = self.sizes
        rows = [report.render() for report in (self.train, self.dev) if report]
        origin = "from their own files" if self.dev else f"held out; they share {self.apart} with training"
        validation = f"{dev:,} to validate on ({origin})" if dev else "none held out to validate on"
        rows.append(f"{counted(train, self.unit)} to train on, {validation}")
        shared, line = self.shared
        rows += [line] * bool(line)
        if shared >= max(WARN_OVERLAP * dev, 1):
            share = f"all {dev:,} dev {self.unit}s"
            if shared < dev:
                share = f"{shared:,} of {dev:,} dev {self.unit}s ({shared / dev:.0%})"
            rows.append(
                f"warning: {share} are in the training data too, so validation shows what the model remembers, not what it has "
                f"learned; set data.dev to other files, or leave it empty to hold {self.unit}s out of the training data"
            )
        return "\n".join([*rows, *self.render_counts(), *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        dev = self.dev.to_dict() if self.dev else None
        return {**asdict(self), "train": self.train.to_dict(), "dev": dev}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Build a report from the result of `to_dict`."""
        dev = ReadingReport.from_dict(plain["dev"]) if plain["dev"] else None
        return cls(**{**plain, "train": ReadingReport.from_dict(plain["train"]), "dev": dev})


@dataclass(kw_only=True)
class TextsReport(PreparationReport):
    """A report on data with one text per example."""

    unit = "text"
    apart = "no text"

    train_texts: int
    dev_texts: int
    vocabulary_size: int
    """Number of symbols, including special ones."""
    train_tokens: int
    overlap: int | None = None
    """Number of texts in given dev files that are also in the training data; None without dev files."""

    @property
    def shared(self) -> tuple[int, str]:
        """Number of texts in dev files that are also in the training data, and a line about them."""
        count = self.overlap or 0
        return count, f"  {count:,} of the dev texts are also in the training data" if count else ""


@dataclass
class Overlap:
    """Overlap of given dev files with the training data. The pairs are kept, because the user chose the files."""

    pairs: int = 0
    """Number of dev pairs that also occur as pairs in the training data."""
    sources: int = 0
    """Number of dev pairs whose source is in the training data."""
    targets: int = 0
    """Number of dev pairs whose target is in the training data."""


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
    joint: bool = False
    """Whether source and target share one vocabulary."""
    train_tokens: tuple[int, int]
    """Number of source and target tokens in training, including end symbols."""
    overlap: Overlap | None = None
    """Overlap of given dev files with the training data; None without dev files."""

    @property
    def shared(self) -> tuple[int, str]:
        """Number of pairs in dev files that are also in the training data, and a line about them and their sides."""
        found = self.overlap or Overlap()
        line = (
            f"  also in the training data: {found.pairs:,} of the dev pairs, {found.sources:,} of the dev sources and "
            f"{found.targets:,} of the dev targets"
        )
        return found.pairs, line if found.sources + found.targets else ""

    def render_counts(self) -> list[str]:
        """Return a line on the vocabularies and the tokens."""
        tokens = " and ".join(f"{count:,}" for count in self.train_tokens)
        sizes = f"vocabularies of {self.source_size:,} and {self.target_size:,} symbols"
        return [f"{f'a joint vocabulary of {self.source_size:,} symbols' if self.joint else sizes}; {tokens} tokens"]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Build a report from the result of `to_dict`."""
        overlap = Overlap(**plain["overlap"]) if plain["overlap"] else None
        source, target = plain["train_tokens"]
        return super().from_dict({**plain, "overlap": overlap, "train_tokens": (source, target)})


@dataclass(kw_only=True)
class LabelledReport(TextsReport):
    """A report on labelled texts."""

    train_counts: dict[str, int]
    """Number of training texts with each label."""
    dev_counts: dict[str, int]
    truncated: int
    """Number of training and dev texts that were truncated to `max_tokens` tokens."""

    def render_counts(self) -> list[str]:
        """Return a line on the labels, warnings about them, and a line on the vocabulary and the tokens."""
        common = sorted(self.train_counts.items(), key=lambda item: -item[1])
        shown = [f"{name} {count:,} ({count / max(self.train_texts, 1):.1%})" for name, count in common[:_LABELS_SHOWN]]
        shown += [f"…, {common[-1][0]} {common[-1][1]:,}"] if len(common) > _LABELS_SHOWN else []
        return [
            f"{counted(len(common), 'label')}: {', '.join(shown)}",
            *self._doubts(),
            f"vocabulary of {counted(self.vocabulary_size, 'symbol')}; {counted(self.train_tokens, 'token')}",
        ]

    def _doubts(self) -> list[str]:
        """Return warnings about labels that differ only in case, or that seem to be several labels joined by a separator.

        Labels seem to be joined if more than two of them contain the separator, and splitting all labels at it gives fewer
        different parts than there are labels.
        """
        warnings = []
        spellings: dict[str, list[str]] = {}
        for name in self.train_counts:
            spellings.setdefault(name.casefold(), []).append(name)
        if alike := next((names for names in spellings.values() if len(names) > 1), None):
            warnings.append(
                f"warning: the labels '{alike[0]:.60}' and '{alike[1]:.60}' differ only in upper and lower case, and are "
                "learned as different labels; if they mean the same, write them the same in the file"
            )
        for separator in ",;|":
            joined = [name for name in self.train_counts if separator in name]
            parts = {part.strip() for name in self.train_counts for part in name.split(separator)}
            if len(joined) > 2 and len(parts) < len(self.train_counts):
                warnings.append(
                    f"warning: {counted(len(joined), 'label')} contain '{separator}', such as '{joined[0]:.60}'; if a text can "
                    f"have several labels, set data.label_separator to '{separator}'"
                )
        return warnings


@dataclass(kw_only=True)
class TextReport(TextsReport):
    """A report on plain texts; the tokens include an end symbol for each text."""

    dev_tokens: int

    def render_counts(self) -> list[str]:
        """Return a line on the vocabulary and the tokens."""
        return [
            f"vocabulary of {self.vocabulary_size:,} symbols; {self.train_tokens:,} tokens to train on, "
            f"{self.dev_tokens:,} to validate on"
        ]
