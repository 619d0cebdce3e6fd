"""Results of a language model: generated texts, scores of given texts, and their attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from regard.records import AttentionRecord
from regard.tasks.notebook import shortened, table
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class Generation:
    """One continuation of a prompt."""

    prompt: str
    """The original prompt."""
    text: str
    """The prompt with the added text."""
    log_probability: float
    """log p(added text | prompt) under the model, regardless of the settings of sampling, including the end symbol if
    `finished`.
    """
    num_tokens: int
    """Number of tokens that were added, without the end symbol."""
    finished: bool
    """Whether the model ended the text; False if the length limit cut it off."""
    _origin: "Origin | None" = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> AttentionRecord | None:
        """Record of the attention, built at the first access; None if no attention was recorded."""
        return None if self._origin is None else self._origin.record(self.prompt, self.text, self.log_probability)

    def __repr__(self) -> str:
        cut = "" if self.finished else ", unfinished"
        return f"Generation({shortened(self.text)}, {self.num_tokens:,} tokens, log p {self.log_probability:.2f}{cut})"

    def _repr_html_(self) -> str:
        rows = [("prompt", self.prompt), ("text", self.text), ("tokens", f"{self.num_tokens:,}")]
        rows.append(("log probability", f"{self.log_probability:.2f}"))
        return table("", rows, "" if self.finished else "The length limit cut the text off.")


@dataclass(frozen=True)
class ScoredText:
    """Scores of a given text."""

    text: str
    log_probability: float
    """log p(text), including the end symbol."""
    token_log_probabilities: np.ndarray
    """Log probability of each token, (T + 1), in float32; the last is that of the end symbol."""
    _origin: "Origin | None" = field(default=None, repr=False, compare=False)

    @property
    def perplexity(self) -> float:
        """exp(−log p / (T + 1))."""
        return float(np.exp(min(-self.log_probability / len(self.token_log_probabilities), 700.0)))

    @cached_property
    def attention(self) -> AttentionRecord | None:
        """Record of the attention, built at the first access; None if no attention was recorded."""
        return None if self._origin is None else self._origin.record(self.text, self.text, self.log_probability)


@dataclass(frozen=True)
class Origin:
    """Data from which the record of a text is made."""

    tokenizer: Tokenizer
    fed: Sequence[int]
    """Input of the model: the start symbol and the tokens, without the last token if no word follows it."""
    attention: Mapping[str, np.ndarray]
    """Attention by site, with a row and a column for each token of `fed`."""
    given: str | None = None
    """The text if it was given and not generated. Its original words are shown, even unknown ones."""

    def record(self, before: str, text: str, log_probability: float) -> AttentionRecord:
        """Build the record of the words that the model read; special symbols belong to no word."""
        read = self.tokenizer.describe(self.fed)
        words, word_of = read.words, read.word_of
        if self.given is not None:
            encoding = self.tokenizer.encode(self.given)
            words, word_of = encoding.words, [-1, *encoding.word_of]
        return AttentionRecord(
            source_tokens=(),
            source_words=(),
            source_word_of=(),
            target_tokens=tuple(read.tokens),
            target_words=tuple(words),
            target_word_of=tuple(word_of),
            weights=dict(self.attention),
            source_text=before,
            target_text=text,
            log_probability=min(log_probability, 0.0),
            target_is_read=True,
        )
