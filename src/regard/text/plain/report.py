"""What became of all the texts of a run."""

from dataclasses import dataclass

from regard.text.report import TextsReport

REPEATED = "exact repeat of an earlier text"


@dataclass(kw_only=True)
class TextReport(TextsReport):
    """A report on texts alone; the tokens include an end symbol for each text."""

    dev_tokens: int

    def render_counts(self) -> list[str]:
        """Return a line on the vocabulary and the tokens."""
        return [
            f"vocabulary of {self.vocabulary_size:,} symbols; {self.train_tokens:,} tokens to train on, "
            f"{self.dev_tokens:,} to validate on"
        ]
