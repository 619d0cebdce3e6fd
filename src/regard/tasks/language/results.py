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
    """The prompt, followed by the added text."""
    log_probability: float
    """log p(added text | prompt), natural logarithm, including the end symbol if `finished`. It comes from the model's own
    probabilities, before temperature and other settings of sampling change them.
    """
    num_tokens: int
    """Number of tokens that were added to the prompt, without the end symbol."""
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
    """log p(text), natural logarithm, including the end symbol."""
    token_log_probabilities: np.ndarray
    """Log probabilities of the T tokens of the text and of the end symbol, (T + 1), in float32."""
    _origin: "Origin | None" = field(default=None, repr=False, compare=False)

    @property
    def perplexity(self) -> float:
        """Perplexity per token: exp(−log p / (T + 1)) for T tokens and the end symbol."""
        return float(np.exp(min(-self.log_probability / len(self.token_log_probabilities), 700.0)))

    @cached_property
    def attention(self) -> AttentionRecord | None:
        """Record of the attention, built at the first access; None if no attention was recorded."""
        return None if self._origin is None else self._origin.record(self.text, self.text, self.log_probability)


@dataclass(frozen=True)
class Origin:
    """Data from which the attention record of a text is built."""

    tokenizer: Tokenizer
    fed: Sequence[int]
    """Tokens that the model read: the start symbol and the tokens of the text, except the last one if the length limit cut
    the text off.
    """
    attention: Mapping[str, np.ndarray]
    """Attention weights by site, with a row and a column for each token of `fed`."""
    given: str | None = None
    """The text if the caller gave it; None if it was generated. The record shows the original words of this text, even if the
    model does not know them.
    """

    def record(self, before: str, text: str, log_probability: float) -> AttentionRecord:
        """Build the attention record of the tokens that the model read. Special symbols belong to no word."""
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
            target_scheme=self.tokenizer.record_scheme,
            weights=dict(self.attention),
            source_text=before,
            target_text=text,
            log_probability=min(log_probability, 0.0),
            target_is_read=True,
        )
