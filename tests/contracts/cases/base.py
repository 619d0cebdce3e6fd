"""What the battery knows of a mechanism: how to build it, and a formula written without the code under test."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from regard.attention import Attention

B, Q, K, DQ, DK, DV, DA = 2, 3, 17, 5, 7, 13, 11
"""Axes of the battery: primes, and no two equal, so that a transpose cannot hide."""

Parameters = dict[str, np.ndarray]
Formula = Callable[[Parameters, np.ndarray, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(parameters by name, query (B,Q,Dq), key (B,K,Dk), value (B,K,Dv), mask (B,Q,K) or with heads (B,H,Q,K)) → context (B,Q,·),
weights (B,Q,K) or (B,H,Q,K). All float64; what stands behind a key mask has been set to zero."""


@dataclass(frozen=True)
class Case:
    """A mechanism, its formula in plain numpy, and the cells of the battery that it refuses."""

    name: str
    build: Callable[[], Attention]
    formula: Formula
    heads: int | None = None
    """H of the weights (B,H,Q,K); None for weights (B,Q,K)."""
    value_size: int = DV
    """Dv that the mechanism takes; any, for most."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Name of a test, without `test_` → why it does not apply to this mechanism."""


def by_score(score: Callable[[Parameters, np.ndarray, np.ndarray], float]) -> Formula:
    """The formula of a mechanism that is a softmax over one score for each query and key."""

    def formula(
        parameters: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        weights = np.zeros(mask.shape)
        for b, i in np.ndindex(mask.shape[:2]):
            scores = {j: score(parameters, query[b, i], key[b, j]) for j in np.flatnonzero(mask[b, i])}
            weights[b, i] = softmax(scores, mask.shape[2])
        return weights @ value, weights

    return formula


def softmax(scores: Mapping[int, float], size: int) -> np.ndarray:
    """Weights of the positions that have a score, zero at the others."""
    weights = np.zeros(size)
    top = max(scores.values(), default=0.0)
    total = sum(math.exp(s - top) for s in scores.values())
    for j, s in scores.items():
        weights[j] = math.exp(s - top) / total
    return weights
