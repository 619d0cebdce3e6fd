"""Results of a search, and their scores."""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from torch import Tensor

from regard.text.symbols import END

Length = TypeVar("Length", float, Tensor)
Total = TypeVar("Total", float, Tensor)


@dataclass(frozen=True)
class Hypothesis:
    """One target for one source."""

    tokens: list[int]
    """The T words, without the start and the end symbol."""
    log_probability: float
    """log p(target | source), including the end symbol if `finished`."""
    score: float
    """Score that ranks hypotheses; see `score_of`."""
    finished: bool
    """Whether the model produced the end symbol; False if the target was cut at the length limit."""
    token_log_probabilities: np.ndarray
    """Log probabilities of the words and the end symbol in float32, (T + 1); (T) if unfinished."""
    attention: dict[str, np.ndarray] = field(default_factory=dict)
    """Weights by site in float32: (T + 1, S), or (H, T + 1, S) with heads; T rows if unfinished. Row t belongs to the step
    that predicts word t. S is the length of the sentence without padding. Weights of sites whose names begin with `encoder`
    are (H, S, S); with `decoder`, they are (H, T + 1, T + 1).
    """

    @property
    def written(self) -> list[int]:
        """The words, with the end symbol if `finished`."""
        return [*self.tokens, END] if self.finished else self.tokens


def score_of(log_probability: Total, length: Length, length_penalty: float, length_reward: float) -> Total:
    """Return (log p(Y | X) + r·|Y|) / ((5 + |Y|) / 6)^α, with the length penalty α and the length reward r.

    The length |Y| is the number of predicted symbols, including the end symbol.

    Reference:
        Wu et al. 2016, "Google's Neural Machine Translation System", eq. 14, for the penalty; He et al. 2016, "Improved Neural
        Machine Translation with SMT Features", for the reward, compared with penalties in Murray and Chiang 2018, "Correcting
        Length Bias in Neural Machine Translation".
    """
    return (log_probability + length_reward * length) / length_penalty_of(length, length_penalty)  # type: ignore[return-value]


def length_penalty_of(length: Length, alpha: float) -> Length:
    """Return ((5 + length) / 6)^α, the number by which `score_of` divides."""
    return ((5.0 + length) / 6.0) ** alpha
