"""Evaluation of translations: BLEU (Papineni et al. 2002) and chrF (Popović 2015), and the loss of given targets."""

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
