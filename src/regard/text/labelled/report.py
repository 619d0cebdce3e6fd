"""What became of all the labelled data of a run."""

from dataclasses import dataclass

from regard.plurals import counted
from regard.text.report import TextsReport

_SHOWN = 12


@dataclass(kw_only=True)
class LabelledReport(TextsReport):
    """A report on labelled texts."""

    train_counts: dict[str, int]
    """Number of training texts with each label."""
    dev_counts: dict[str, int]
    truncated: int
    """Number of texts in training and dev that have more than `max_tokens` tokens, of which the first were taken."""

    def render_counts(self) -> list[str]:
        """Return a line on the labels, and one on the vocabulary and the tokens."""
        return [
            f"{counted(len(self.train_counts), 'label')}: {self._shares()}",
            f"vocabulary of {counted(self.vocabulary_size, 'symbol')}; {counted(self.train_tokens, 'token')}",
        ]

    def _shares(self) -> str:
        total = max(self.train_texts, 1)
        common = sorted(self.train_counts.items(), key=lambda item: -item[1])
        shown = [f"{name} {count:,} ({count / total:.1%})" for name, count in common[:_SHOWN]]
        return ", ".join(shown) + (f", …, {common[-1][0]} {common[-1][1]:,}" if len(common) > _SHOWN else "")
