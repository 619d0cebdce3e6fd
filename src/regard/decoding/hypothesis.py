"""Results of a search, and their scores."""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from torch import Tensor

Length = TypeVar("Length", float, Tensor)
Total = TypeVar("Total", float, Tensor)


@dataclass(frozen=True)
class Hypothesis:
    """One target for one source."""

    tokens: list[int]
    """The T words, without the start and the end symbol."""
    log_probability: float
    """log p(target | source), the end symbol's included where `finished`."""
    score: float
    """Score that ranks hypotheses; see `score_of`."""
    finished: bool
    """Whether the model ended it; False where it was cut at the length limit."""
    token_log_probabilities: np.ndarray
    """(T + 1) float32, the last for the end symbol; (T) where unfinished."""
    attention: dict[str, np.ndarray] = field(default_factory=dict)
    """By site (T + 1, S) or with heads (H, T + 1, S), float32; T rows where unfinished. Row t belongs to the step that
    predicts word t. S is the sentence's own length, padding cut off. A site that begins with `encoder` is (H, S, S), with
    `decoder` (H, T + 1, T + 1)."""


def score_of(log_probability: Total, length: Length, length_penalty: float, length_reward: float) -> Total:
    """Return (log p(Y | X) + r·|Y|) / ((5 + |Y|) / 6)^α.

    Args:
        log_probability: log p(Y | X).
        length: |Y|, the predicted symbols, the end symbol included.
        length_penalty: α ≥ 0; 0 for none.
        length_reward: r ≥ 0, in nats a symbol; 0 for none.

    Reference:
        Wu et al. 2016, "Google's Neural Machine Translation System", eq. 14, for the penalty; He et al. 2016, "Improved Neural
        Machine Translation with SMT Features", for the reward, compared with penalties in Murray and Chiang 2018, "Correcting
        Length Bias in Neural Machine Translation".
    """
    return (log_probability + length_reward * length) / length_penalty_of(length, length_penalty)  # type: ignore[return-value]


def length_penalty_of(length: Length, alpha: float) -> Length:
    """Return ((5 + length) / 6)^α, which a log probability is divided by.

    Args:
        length: Predicted symbols, the end symbol included.
        alpha: ≥ 0; 0 for no penalty.

    Reference:
        Wu et al. 2016, "Google's Neural Machine Translation System", eq. 14.
    """
    return ((5.0 + length) / 6.0) ** alpha
