"""How well a language model predicts given texts."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError
from regard.plurals import counted
from regard.text.symbols import UNKNOWN

if TYPE_CHECKING:
    from regard.tasks.language.predictor import LanguageModel


@dataclass(frozen=True)
class LanguageEvaluation:
    """Scores over some texts. An end symbol is predicted after each of them."""

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
        """Plain data, for JSON."""
        return asdict(self)

    def render(self) -> str:
        """A few lines for a terminal."""
        unknown = f", {self.unknown:,} of them unknown to the model ({self.unknown / self.tokens:.2%})" if self.unknown else ""
        return (
            f"{counted(self.texts, 'text')}, {counted(self.tokens, 'token')}{unknown}\n"
            f"loss        {self.loss:.4f}   (nats a token)\n"
            f"perplexity  {self.perplexity:,.3f}   (a token; {self.word_perplexity:,.3f} a word)\n"
            f"bits        {self.bits_per_character:.4f}   (a character)"
        )


def evaluate_language(model: "LanguageModel", texts: Sequence[str], *, progress: bool = False) -> LanguageEvaluation:
    """Score a language model on texts.

        perplexity = exp(−Σ log p(token | tokens before it) / number of tokens)

    Args:
        model: The model.
        texts: The texts.
        progress: Whether to show a bar on standard error.

    Raises:
        RequestError: If there are no texts.
    """
    if not texts:
        raise RequestError("evaluate: there are no texts, expected at least one")
    scored = model.score(texts, progress=progress)
    total = -math.fsum(one.log_probability for one in scored)
    tokens = sum(len(one.token_log_probabilities) for one in scored)
    words = sum(len(text.split()) for text in texts) + len(texts)
    characters = sum(len(" ".join(text.split())) for text in texts) + len(texts)
    ids, _ = model.tokenizer.encode_batch(list(texts))
    return LanguageEvaluation(
        texts=len(texts),
        tokens=tokens,
        unknown=int((ids == UNKNOWN).sum()),
        loss=total / tokens,
        perplexity=_exp(total / tokens),
        word_perplexity=_exp(total / words),
        bits_per_character=total / math.log(2) / characters,
    )


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))
