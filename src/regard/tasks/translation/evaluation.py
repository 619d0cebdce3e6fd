"""How good a translator is on given pairs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.config import DecodingConfig
from regard.errors import RequestError
from regard.plurals import counted
from regard.text.metrics import build_metrics

if TYPE_CHECKING:
    from regard.tasks.translation.predictor import Translator


@dataclass(frozen=True)
class Evaluation:
    """Scores over some pairs."""

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
        """Plain data, for JSON."""
        return asdict(self)

    def render(self) -> str:
        """A few lines for a terminal."""
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


def evaluate(
    translator: "Translator",
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    length_reward: float | None = None,
    progress: bool = False,
) -> Evaluation:
    """Score a translator on pairs: loss of the given targets, BLEU (Papineni et al. 2002) and chrF (Popović 2015) of its own.

    Args:
        translator: The translator.
        sources: The sources.
        targets: One reference each.
        beam_size, length_penalty, length_reward: As for `Translator.translate`.
        progress: Whether to show bars on standard error.

    Raises:
        RequestError: If there are no pairs, or not as many targets as sources.
    """
    if not sources:
        raise RequestError("evaluate: there are no pairs, expected at least one")
    forced = translator.force(sources, targets, record=(), progress=progress)
    sizes = translator.bundle.target_tokenizer.encode_batch(list(targets))[1]
    loss = -math.fsum(one.log_probability for one in forced) / (int(sizes[-1]) + len(sources))
    search: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty, "length_reward": length_reward}
    found = translator.translate(sources, **search, record=(), progress=progress)
    texts = [one.text for one in found]
    bleu, chrf = build_metrics(translator.bundle.target_tokenizer, targets)
    bleu_score, chrf_score = bleu.corpus_score(texts, [list(targets)]), chrf.corpus_score(texts, [list(targets)])
    decoding = translator.decoding(**search)
    return Evaluation(
        loss=loss,
        perplexity=math.exp(min(loss, 700.0)),
        bleu=bleu_score.score,
        chrf=chrf_score.score,
        length_ratio=bleu_score.sys_len / max(bleu_score.ref_len, 1),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        pairs=len(sources),
        beam_size=decoding.beam_size,
        length_penalty=decoding.length_penalty,
        length_reward=decoding.length_reward,
    )
