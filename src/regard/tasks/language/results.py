"""One text that a language model wrote or scored: text, scores and attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.records import AttentionRecord
from regard.tasks.results import Prediction, record_side, shortened, table
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class Generation(Prediction):
    """One continuation of a prompt, or a given text with its scores, whose prompt is empty."""

    prompt: str
    """The original prompt."""
    text: str
    """The prompt, followed by the added text."""
    log_probability: float
    """log p(added text | prompt), natural logarithm, including the end symbol if `finished`. It comes from the model's own
    probabilities, before temperature and other settings of sampling change them.
    """
    token_log_probabilities: np.ndarray = field(repr=False, compare=False)
    """Log probabilities of the tokens that were added to the prompt, and of the end symbol if `finished`, in float32."""
    finished: bool = True
    """Whether the model ended the text; False if the length limit cut it off."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens that were added to the prompt, without the end symbol."""
        return len(self.token_log_probabilities) - self.finished

    @property
    def perplexity(self) -> float:
        """Perplexity per token: exp(−log p / n), where n counts the added tokens and the end symbol."""
        return float(np.exp(min(-self.log_probability / max(len(self.token_log_probabilities), 1), 700.0)))

    def __repr__(self) -> str:
        cut = "" if self.finished else ", unfinished"
        return f"Generation({shortened(self.text)}, {self.num_tokens:,} tokens, log p {self.log_probability:.2f}{cut})"

    def _repr_html_(self) -> str:
        rows = [("prompt", self.prompt), ("text", self.text), ("tokens", f"{self.num_tokens:,}")]
        rows.append(("log probability", f"{self.log_probability:.2f}"))
        return table("", rows, "" if self.finished else "The length limit cut the text off.")


def build_record(
    tokenizer: Tokenizer,
    read: Sequence[int],
    attention: Mapping[str, np.ndarray],
    prompt: str,
    text: str,
    log_probability: float,
    reference: str | None = None,
) -> AttentionRecord:
    """Build the attention record of the tokens that the model read; special symbols belong to no word.

    Args:
        tokenizer: Tokenizer of the text.
        read: Tokens that the model read: the start symbol and the tokens of the text, except the last one if the length limit
            cut the text off.
        attention: Attention weights by site, with a row and a column for each token of `read`.
        prompt: The prompt.
        text: The whole text.
        log_probability: Log probability of the added text.
        reference: The text if the caller gave it, whose words are shown even if the model does not know them; else None.
    """
    shown = tokenizer.describe(read)
    words, word_of = shown.words, shown.word_of
    if reference is not None:
        encoding = tokenizer.encode(reference)
        words, word_of = encoding.words, [-1, *encoding.word_of]
    return AttentionRecord(
        source_tokens=(),
        source_words=(),
        source_word_of=(),
        source_text=prompt,
        **record_side("target", tokenizer, shown.tokens, words, word_of, text),
        weights=dict(attention),
        log_probability=min(log_probability, 0.0),
        target_is_read=True,
    )
