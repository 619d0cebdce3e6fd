"""Evaluation of models that predict words: perplexity of texts, and quality of translations."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.config import DecodingConfig
from regard.errors import RequestError
from regard.plurals import counted

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


@dataclass(frozen=True)
class LanguageEvaluation:
    """Scores of a language model on texts. It predicts an end symbol after each text."""

    texts: int
    tokens: int
    """Number of tokens, including end symbols."""
    unknown: int
    """Number of tokens that the vocabulary does not contain. They make perplexities too low."""
    loss: float
    """−log p of a token, natural logarithm."""
    perplexity: float
    """exp(loss) per token, which is comparable only between models with the same vocabulary."""
    word_perplexity: float
    """Perplexity per word, from the sum of the losses divided by the number of words (separated by spaces) and ends of
    texts.
    """
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


@dataclass(frozen=True)
class Evaluation:
    """Scores of translations, and the loss of given targets."""

    loss: float
    """−log p of a target token, natural logarithm, end symbols included; of the given targets."""
    perplexity: float
    """exp(loss)."""
    bleu: float
    """From 0 to 100; of the model's own translations."""
    chrf: float
    """From 0 to 100."""
    length_ratio: float
    """Words of the translations by words of the references, as BLEU counts them."""
    bleu_signature: str
    """How sacrebleu computed it; quote it with the score."""
    chrf_signature: str
    pairs: int
    beam_size: int
    length_penalty: float
    length_reward: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    def render(self) -> str:
        """Return a few lines for a terminal."""
        search = DecodingConfig(
            beam_size=self.beam_size, length_penalty=self.length_penalty, length_reward=self.length_reward
        ).describe()
        beam = "greedy" if self.beam_size == 1 else f"beam {self.beam_size}"
        return (
            f"{counted(self.pairs, 'pair')}, {search}\n"
            f"loss       {self.loss:.4f}   (perplexity {self.perplexity:.3f})\n"
            f"BLEU       {self.bleu:.2f}   ({beam}; {self.bleu_signature})\n"
            f"chrF       {self.chrf:.2f}   ({beam}; {self.chrf_signature})\n"
            f"length     {self.length_ratio:.3f}   (of the references', in words)"
        )


def build_metrics(*, tokenised: bool, lowercase: bool) -> "tuple[BLEU, CHRF]":
    """Build sacrebleu's BLEU and chrF; the metrics' signatures say how they were built.

    Args:
        tokenised: Whether the texts are tokenised already and are taken as they are; else WMT's `13a` tokenises them.
        lowercase: Whether to ignore case, for a model that writes in lower case.

    Reference:
        Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    from sacrebleu.metrics import BLEU, CHRF

    # `force` only silences a warning about text that looks tokenised.
    return BLEU(tokenize="none" if tokenised else "13a", lowercase=lowercase, force=True), CHRF(lowercase=lowercase)


def evaluate_translations(
    translations: Sequence[str],
    references: Sequence[str],
    *,
    log_probability: float,
    num_tokens: int,
    metrics: "tuple[BLEU, CHRF]",
    decoding: DecodingConfig,
) -> Evaluation:
    """Score translations against references.

    Args:
        translations: What a model made of the sources.
        references: One for each translation.
        log_probability: Sum of the natural log-probabilities that the model gives to the references.
        num_tokens: Number of tokens in that sum, end symbols included.
        metrics: As `build_metrics` gives them.
        decoding: How the translations were searched for; the result quotes it.

    Raises:
        RequestError: If there are no translations, or not as many references.
    """
    if not translations or len(translations) != len(references):
        raise RequestError(
            f"evaluate: got {len(translations):,} translations and {len(references):,} references, "
            "expected as many, at least one"
        )
    bleu, chrf = metrics
    bleu_score = bleu.corpus_score(list(translations), [list(references)])
    loss = -log_probability / num_tokens
    return Evaluation(
        loss=loss,
        perplexity=math.exp(min(loss, 700.0)),
        bleu=bleu_score.score,
        chrf=chrf.corpus_score(list(translations), [list(references)]).score,
        length_ratio=bleu_score.sys_len / max(bleu_score.ref_len, 1),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        pairs=len(translations),
        beam_size=decoding.beam_size,
        length_penalty=decoding.length_penalty,
        length_reward=decoding.length_reward,
    )
