"""One classification: label, probabilities and attention."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from regard.records import AttentionRecord
from regard.records.data import NOTE
from regard.tasks.notebook import bars, shortened
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class Classification:
    """Classification of one text."""

    text: str
    """The original text."""
    label: str
    """The most probable label."""
    probability: float
    """Probability of `label`."""
    labels: tuple[str, ...]
    """The label; if texts may have several, all labels with a probability above ½, the most probable first; possibly none."""
    _names: tuple[str, ...] = field(repr=False, compare=False)
    _values: np.ndarray = field(repr=False, compare=False)
    _origin: "Origin | None" = field(default=None, repr=False, compare=False)
    cut_at: int | None = None
    """Number of tokens that the model read of a text that was too long; None if it read the whole text."""

    several: bool = field(default=False, repr=False, compare=False)
    """Whether texts may have several labels."""

    @cached_property
    def probabilities(self) -> dict[str, float]:
        """Probability of every label, the most probable first. The sum is one, unless texts may have several labels."""
        order = np.argsort(-self._values, kind="stable").tolist()
        return {self._names[place]: float(self._values[place]) for place in order}

    @cached_property
    def attention(self) -> AttentionRecord | None:
        """Record of the attention, built at the first access; None if no attention was recorded."""
        return None if self._origin is None else self._origin.record(self)

    def __repr__(self) -> str:
        several = f", labels {', '.join(map(shortened, self.labels))}" if self.labels != (self.label,) else ""
        cut = "" if self.cut_at is None else f", the first {self.cut_at:,} tokens"
        return f"Classification({shortened(self.text)} → {shortened(self.label)} {self.probability:.1%}{several}{cut})"

    def _repr_html_(self) -> str:
        cut = "" if self.cut_at is None else f"Only the first {self.cut_at:,} tokens were read. "
        note = cut + (".attention shows which words the model attended to" if self._origin is not None else "")
        return bars(self.text, self.probabilities.items(), note)


@dataclass(frozen=True)
class Origin:
    """Data from which the attention record of a classification is built."""

    tokenizer: Tokenizer
    num_tokens: int
    """Number of tokens that the model read, which is smaller than that of the text if the text was truncated."""
    attention: Mapping[str, np.ndarray]
    """Attention weights by site, with one row for the label or, at sites of an encoder, one row for each token."""
    note: str
    """Sentence on how well the attention can be trusted; empty if it was not measured."""

    def record(self, found: Classification) -> AttentionRecord:
        """Build the attention record, whose only output word is the label."""
        encoding = self.tokenizer.encode(found.text)
        tokens, word_of = list(encoding.tokens[: self.num_tokens]), list(encoding.word_of[: self.num_tokens])
        if not tokens:  # the model gets one unknown word for an empty text
            tokens, word_of = [""] * self.num_tokens, [-1] * self.num_tokens
        words = encoding.words[: max(word_of, default=-1) + 1]
        note = self.note or NOTE
        if found.cut_at is not None:
            note = f"The model read only the first {found.cut_at:,} tokens (data.max_tokens); the text is longer. {note}"
        return AttentionRecord(
            source_tokens=tuple(tokens),
            target_tokens=(found.label,),
            source_words=tuple(words),
            target_words=(found.label,),
            source_word_of=tuple(word_of),
            target_word_of=(0,),
            source_scheme=self.tokenizer.record_scheme,
            weights=dict(self.attention),
            source_text=found.text,
            target_text=found.label,
            probabilities=found.probabilities,
            log_probability=float(np.log(max(found.probability, 1e-300))),
            note=note,
        )
