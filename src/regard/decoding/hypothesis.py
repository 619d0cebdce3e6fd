"""What a search returns, and how it is scored."""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from torch import Tensor

Length = TypeVar("Length", float, Tensor)


@dataclass(frozen=True)
class Hypothesis:
    """One target for one source."""

    tokens: list[int]
    """The T words, without the start and the end symbol."""
    log_probability: float
    """log p(target | source), the end symbol's included where `finished`."""
    score: float
    """`log_probability` over the length penalty: what the search ranks by."""
    finished: bool
    """Whether the model ended it; False where it was cut at the length limit."""
    token_log_probabilities: np.ndarray
    """(T + 1) float32, the last for the end symbol; (T) where unfinished."""
    attention: dict[str, np.ndarray] = field(default_factory=dict)
    """By site (T + 1, S) or with heads (H, T + 1, S), float32; T rows where unfinished. Row t belongs to the step that
    predicts word t. S is the sentence's own length, padding cut off. A site that begins with `encoder` is (H, S, S), with
    `decoder` (H, T + 1, T + 1)."""


def length_penalty_of(length: Length, alpha: float) -> Length:
    """((5 + length) / 6)^α, which a log probability is divided by.

    Args:
        length: Predicted symbols, the end symbol included.
        alpha: ≥ 0; 0 for no penalty.

    Reference:
        Wu et al. 2016, "Google's Neural Machine Translation System", eq. 14.
    """
    return ((5.0 + length) / 6.0) ** alpha
