"""Evaluation of a language model: how probable it finds given texts."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import RequestError
from regard.plurals import counted


@dataclass(frozen=True)
class LanguageEvaluation:
    """Scores of a language model on texts. It predicts an end symbol after each text."""

    texts: int
    tokens: int
    """End symbols included."""
    unknown: int
    """Tokens that the vocabulary does not have. Where there are some, perplexities flatter the model."""
    loss: float
    """−log p of a token, natural logarithm."""
    perplexity: float
    """exp(loss): of a token, and so comparable only between models of one vocabulary."""
    word_perplexity: float
    """The same with the sum of the losses over words (what stands between spaces) and ends of texts."""
    bits_per_character: float
    """The sum over characters and ends of texts, in bits; comparable between any models that know all of the text. Spaces in a
    row are one, as most models read them."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    def render(self) -> str:
        """Return a few lines for a terminal."""
        unknown = f", {self.unknown:,} of them unknown to the model ({self.unknown / self.tokens:.2%})" if self.unknown else ""
        return (
            f"{counted(self.texts, 'text')}, {counted(self.tokens, 'token')}{unknown}\n"
            f"loss        {self.loss:.4f}   (nats a token)\n"
            f"perplexity  {self.perplexity:,.3f}   (a token; {self.word_perplexity:,.3f} a word)\n"
            f"bits        {self.bits_per_character:.4f}   (a character)"
        )


def evaluate_language(texts: Sequence[str], *, log_probability: float, num_tokens: int, num_unknown: int) -> LanguageEvaluation:
    """Score a language model by the probability that it gives to texts.

        perplexity = exp(−Σ log p(token | tokens before it) / number of tokens)

    Args:
        texts: The texts.
        log_probability: Sum of the natural log-probabilities of their tokens.
        num_tokens: Number of tokens in that sum, end symbols included.
        num_unknown: Number of tokens that the vocabulary does not have.

    Raises:
        RequestError: If there are no texts.
    """
    if not texts:
        raise RequestError("evaluate: there are no texts, expected at least one")
    words = sum(len(text.split()) for text in texts) + len(texts)
    characters = sum(len(" ".join(text.split())) for text in texts) + len(texts)
    return LanguageEvaluation(
        texts=len(texts),
        tokens=num_tokens,
        unknown=num_unknown,
        loss=-log_probability / num_tokens,
        perplexity=_exp(-log_probability / num_tokens),
        word_perplexity=_exp(-log_probability / words),
        bits_per_character=-log_probability / math.log(2) / characters,
    )


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))
