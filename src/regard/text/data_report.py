"""The report on all the data of a run: what was kept, held out, truncated and learned."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.plurals import counted
from regard.text.report import ReadingReport
from regard.text.symbols import SPECIAL_TOKENS, UNKNOWN

WARN_OVERLAP = 0.1
"""A warning is given if at least this share of the dev examples is also in the training data."""
_LABELS_SHOWN = 12
_SYMBOLS_SHOWN = 20
# Share of unknown tokens above which the report suggests a new vocabulary.
_MANY_UNKNOWN = 0.05


@dataclass(kw_only=True)
class DataReport:
    """Report on all the data of a run. Its dictionaries have an entry for each column: `source` and `target`, or `text`."""

    unit: str
    """Name of an example, in the singular: `pair` or `text`."""
    train: ReadingReport
    dev: ReadingReport | None
    """Report on the dev files; None if the dev examples were held out of the training files."""
    num_train: int
    num_dev: int
    """Number of examples to validate on."""
    too_long: int = 0
    """Number of training and dev examples with too many tokens, which are left out, truncated or split."""
    vocabulary: dict[str, int]
    """Number of symbols, including special ones."""
    joint: bool = False
    """Whether the columns share one vocabulary."""
    train_tokens: dict[str, int]
    dev_tokens: dict[str, int]
    overlap: dict[str, int] = field(default_factory=dict)
    """Numbers of examples in given dev files that are also in the training data: as a whole, then by column. They are kept,
    because the user chose the files. Empty without dev files.
    """
    train_counts: dict[str, int] = field(default_factory=dict)
    """Number of training texts with each label, in the order of the labels; empty for data without labels."""
    dev_counts: dict[str, int] = field(default_factory=dict)
    apart_by: list[str] = field(default_factory=list)
    """Columns of which held-out examples share no value with training; empty for those of `vocabulary`."""
    notes: list[str] = field(default_factory=list)
    symbols: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counts of the symbols in the training texts (`count_symbols`)."""

    def render(self) -> str:
        """Return the report as a few lines for a terminal."""
        rows = [report.render() for report in (self.train, self.dev) if report]
        origin = "from their own files" if self.dev else f"held out; they share {self.apart} with training"
        validation = f"{self.num_dev:,} to validate on ({origin})" if self.num_dev else "none held out to validate on"
        rows.append(f"{counted(self.num_train, self.unit)} to train on, {validation}")
        rows += [*self._render_overlap(), *self._render_labels()]
        sizes = list(self.vocabulary.values())
        vocabulary = f"vocabulary of {counted(sizes[0], 'symbol')}"
        if self.joint:
            vocabulary = f"a joint {vocabulary}"
        elif len(sizes) > 1:
            vocabulary = f"vocabularies of {' and '.join(f'{size:,}' for size in sizes)} symbols"
        train, dev = (" and ".join(f"{n:,}" for n in counts.values()) for counts in (self.train_tokens, self.dev_tokens))
        rows.append(f"{vocabulary}; {train} tokens to train on{f', {dev} to validate on' if self.num_dev else ''}")
        return "\n".join([*rows, *self.notes])

    @property
    def apart(self) -> str:
        """Words that complete the sentence "held-out examples share … with training"."""
        return " and ".join(f"no {column}" for column in self.apart_by or self.vocabulary)

    def _render_overlap(self) -> list[str]:
        """Return lines on dev examples that are also in the training data."""
        if not any(self.overlap.values()):
            return []
        rows = ["  also in the training data: " + ", ".join(f"{n:,} of the dev {name}" for name, n in self.overlap.items())]
        shared, dev = next(iter(self.overlap.values())), self.num_dev
        if shared >= max(WARN_OVERLAP * dev, 1):
            share = f"all {dev:,} dev {self.unit}s"
            if shared < dev:
                share = f"{shared:,} of {dev:,} dev {self.unit}s ({shared / dev:.0%})"
            rows.append(
                f"warning: {share} are in the training data too, so validation shows what the model remembers, not what it has "
                f"learned; set data.dev to other files, or leave it empty to hold {self.unit}s out of the training data"
            )
        return rows

    def _render_labels(self) -> list[str]:
        """Return a line on the labels, and warnings about labels that seem to be misspelt, or several labels in one."""
        if not self.train_counts:
            return []
        common = sorted(self.train_counts.items(), key=lambda item: -item[1])
        shown = [f"{name} {count:,} ({count / max(self.num_train, 1):.1%})" for name, count in common[:_LABELS_SHOWN]]
        shown += [f"…, {common[-1][0]} {common[-1][1]:,}"] if len(common) > _LABELS_SHOWN else []
        rows = [f"{counted(len(common), 'label')}: {', '.join(shown)}"]
        spellings: dict[str, list[str]] = {}
        for name in self.train_counts:
            spellings.setdefault(name.casefold(), []).append(name)
        if alike := next((names for names in spellings.values() if len(names) > 1), None):
            rows.append(
                f"warning: the labels '{alike[0]:.60}' and '{alike[1]:.60}' differ only in upper and lower case, and are "
                "learned as different labels; if they mean the same, set data.fold_case to true"
            )
        for separator in ",;|":
            joined = [name for name in self.train_counts if separator in name]
            parts = {part.strip() for name in self.train_counts for part in name.split(separator)}
            # Splitting joined labels gives fewer parts than there are labels; splitting `Food, Drink` does not.
            if len(joined) > 2 and len(parts) < len(self.train_counts):
                rows.append(
                    f"warning: {counted(len(joined), 'label')} contain '{separator}', such as '{joined[0]:.60}'; if a text can "
                    f"have several labels, set data.label_separator to '{separator}'"
                )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return {**asdict(self), "train": self.train.to_dict(), "dev": self.dev.to_dict() if self.dev else None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "DataReport":
        """Build a report from the result of `to_dict`."""
        dev = ReadingReport.from_dict(plain["dev"]) if plain["dev"] else None
        return cls(**{**plain, "train": ReadingReport.from_dict(plain["train"]), "dev": dev})


def count_symbols(tokens: Sequence[str], counts: Int[np.ndarray, " symbols"]) -> dict[str, Any]:
    """Return numbers of tokens, unknown tokens, and symbols seen once or never, and counts of the most frequent symbols."""
    ordinary = counts[len(SPECIAL_TOKENS) :]
    order = np.argsort(-ordinary, kind="stable")[:_SYMBOLS_SHOWN].tolist()
    return {
        "tokens": int(counts.sum()),
        "unknown": int(counts[UNKNOWN]),
        "seen_once": int((ordinary == 1).sum()),
        "never_seen": int((ordinary == 0).sum()),
        "most_frequent": [[tokens[len(SPECIAL_TOKENS) + place], int(ordinary[place])] for place in order if ordinary[place]],
    }


def describe_unknown_tokens(symbols: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each column with the number of tokens that a reused vocabulary does not know."""
    notes = []
    for column, found in symbols.items():
        side = "" if column == "text" else f"{column} "
        share = found["unknown"] / max(found["tokens"], 1)
        unknown = f"{found['unknown']:,} of {found['tokens']:,} {side}tokens in training ({share:.1%})"
        note = f"the vocabulary comes from another model and doesn't know {unknown}"
        better = "; a model whose vocabulary is learned from these texts (without --from or --distill) may be better"
        notes.append(note if share <= _MANY_UNKNOWN else f"warning: {note}{better}")
    return notes
