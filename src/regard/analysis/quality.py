"""How good a translator is on given pairs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import DataError
from regard.predict import Translator
from regard.text.metrics import build_metrics

_AT_ONCE = 1024
"""Pairs whose attention records are held at once."""


@dataclass(frozen=True)
class Quality:
    """What an evaluation found."""

    loss: float
    """−log p of a target token given those before it, in nats, end symbols included."""
    perplexity: float
    """exp(loss)."""
    bleu: float
    """From 0 to 100."""
    chrf: float
    """From 0 to 100."""
    bleu_signature: str
    """How sacrebleu computed it."""
    chrf_signature: str
    pairs: int
    beam_size: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def render(self) -> str:
        """A few lines for a terminal."""
        return "\n".join(
            (
                f"{self.pairs:,} pairs, beam {self.beam_size}",
                f"loss        {self.loss:.4f}",
                f"perplexity  {self.perplexity:.3f}",
                f"BLEU        {self.bleu:.2f}   ({self.bleu_signature})",
                f"chrF        {self.chrf:.2f}   ({self.chrf_signature})",
            )
        )


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    beam_size: int | None = None,
    progress: bool = False,
) -> Quality:
    """Translate, and compare with references.

        loss = −Σ log p(reference | source) / Σ (tokens of the reference + 1)

    Args:
        translator: A trained model.
        sources: Sentences.
        references: A translation of each.
        beam_size: 1 is greedy; None for the run's own setting.
        progress: Show progress bars on standard error.

    Raises:
        DataError: If there are no pairs, or more sources than references or the other way round.
    """
    if not sources or len(sources) != len(references):
        raise DataError(f"evaluate: {len(sources)} sources and {len(references)} references, expected one of each for every pair")
    translations = translator.translate(sources, beam_size=beam_size, record=(), progress=progress)
    bleu, chrf = build_metrics(translator.config.tokenizers)
    outputs = [translation.text for translation in translations]
    loss = _loss(translator, sources, references)
    return Quality(
        loss=loss,
        perplexity=math.exp(loss) if loss < 700 else math.inf,
        bleu=bleu.corpus_score(outputs, [references]).score,
        chrf=chrf.corpus_score(outputs, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        pairs=len(sources),
        beam_size=beam_size or translator.config.decoding.beam_size,
    )


def _loss(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> float:
    total, tokens = 0.0, 0
    for start in range(0, len(sources), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        for forced in translator.force(sources[part], references[part]):
            total -= forced.log_probability
            tokens += len(forced.attention.target_tokens)
    return total / tokens
