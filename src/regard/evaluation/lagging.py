"""Average lagging: how many source tokens a simultaneous translation is behind one that keeps pace with its source.

Reference: Ma et al. 2019, "STACL: Simultaneous Translation with Implicit Anticipation and Controllable Latency", eqs. 8 and 9.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from regard.evaluation.words import Evaluation


def average_lagging(delays: Sequence[int] | Int[np.ndarray, " T"], source_length: int) -> float:
    """Return the average lagging of one translation, in source tokens.

    AL = 1/τ Σ_{t=1..τ} (g(t) − (t − 1) / r),    r = |y| / |x|,    τ = min {t : g(t) = |x|}

    τ is the first word that is chosen after the whole source was read; later words are not counted. If there is no such word,
    τ = |y|. AL is k for wait-k if both lengths are equal, and |x| for a translation of the whole sentence.

    Args:
        delays: g(t), the number of source tokens that were read when word t was chosen, for all |y| ≥ 1 words.
        source_length: |x|, number of source tokens, ≥ 1.

    Example:
        >>> average_lagging([3, 4, 5, 5, 5], 5)
        3.0
    """
    read = np.asarray(delays, np.float64)
    whole = np.flatnonzero(read >= source_length)
    last = int(whole[0]) + 1 if len(whole) else len(read)
    return float((read[:last] - np.arange(last) * (source_length / len(read))).mean())


@dataclass(frozen=True)
class SimultaneousEvaluation(Evaluation):
    """Scores of a model that translates sources while they arrive, and its loss on the references."""

    average_lagging: float = 0.0
    """Mean of `average_lagging` over the translations, in source tokens of the model."""

    def render(self) -> str:
        return f"{super().render()}\nlagging    {self.average_lagging:.2f}   (source tokens; average lagging, Ma et al. 2019)"
