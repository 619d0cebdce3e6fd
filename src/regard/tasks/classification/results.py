"""One classification: label, probabilities and attention."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from regard.records import AttentionRecord
from regard.records.data import NOTE
from regard.tasks.results import Prediction, record_side, shortened, table
from regard.text.tokenizers.tokenizer import Tokenizer

# Maximum number of labels in a notebook.
_SHOWN_LABELS = 20


@dataclass(frozen=True, repr=False)
class Classification(Prediction):
    """Classification of one text."""

    text: str
    """The original text."""
    label: str
    """The most probable label."""
    probability: float
    """Probability of `label`."""
    labels: tuple[str, ...]
    """The label; if texts may have several, all labels with a probability above ½, the most probable first; possibly none."""
    probabilities: dict[str, float] = field(repr=False, compare=False)
    """Probability of every label, the most probable first. The sum is one, unless texts may have several labels."""
    cut_at: int | None = None
    """Number of tokens that the model read of a text that was too long; None if it read the whole text."""
    several: bool = field(default=False, compare=False)
    """Whether texts may have several labels."""

    def __repr__(self) -> str:
        several = f", labels {', '.join(map(shortened, self.labels))}" if self.labels != (self.label,) else ""
        cut = "" if self.cut_at is None else f", the first {self.cut_at:,} tokens"
        return f"Classification({shortened(self.text)} → {shortened(self.label)} {self.probability:.1%}{several}{cut})"

    def _repr_html_(self) -> str:
        cut = "" if self.cut_at is None else f"Only the first {self.cut_at:,} tokens were read. "
        note = cut + (".attention shows which words the model attended to" if self._build else "")
        probable = list(self.probabilities.items())[:_SHOWN_LABELS]
        return table(self.text, [(name, f"{share:.1%}") for name, share in probable], note)


def build_record(
    tokenizer: Tokenizer, num_tokens: int, attention: Mapping[str, np.ndarray], note: str, found: Classification
) -> AttentionRecord:
    """Build the attention record of a classification, whose only output word is the label.

    The model read the first `num_tokens` tokens. `attention` has one row for the label or, at sites of an encoder, one for each
    token. `note` says how well the attention can be trusted; it is empty if this was not measured.
    """
    encoding = tokenizer.encode(found.text).first(num_tokens)
    tokens, word_of = encoding.tokens, encoding.word_of
    if not tokens:  # the model gets one unknown word for an empty text
        tokens, word_of = [""] * num_tokens, [-1] * num_tokens
    note = note or NOTE
    if found.cut_at is not None:
        note = f"The model read only the first {found.cut_at:,} tokens (data.max_tokens); the text is longer. {note}"
    return AttentionRecord(
        **record_side("source", tokenizer, tokens, encoding.words[: max(word_of, default=-1) + 1], word_of, found.text),
        target_tokens=(found.label,),
        target_words=(found.label,),
        target_word_of=(0,),
        target_text=found.label,
        weights=dict(attention),
        probabilities=found.probabilities,
        log_probability=float(np.log(max(found.probability, 1e-300))),
        note=note,
    )
