"""Local attention: a window around a position that moves on (local-m) or is predicted (local-p)."""

import math
from collections.abc import Callable

import numpy as np
from contracts.cases.base import DA, DK, DQ, Case, Formula, Parameters, softmax

from regard.attention import Additive
from regard.attention.ordered.local import LocalMonotonic, LocalPredictive


def _general(p: Parameters, q: np.ndarray, k: np.ndarray) -> float:
    return k.dot(p["scorer.projection.weight"].dot(q))


def _additive(p: Parameters, q: np.ndarray, k: np.ndarray) -> float:
    hidden = p["scorer.query_projection.weight"].dot(q) + p["scorer.key_projection.weight"].dot(k)
    return p["scorer.score_weight"].dot(np.tanh(hidden))


def _by_window(
    score: Callable[[Parameters, np.ndarray, np.ndarray], float],
    middle: Callable[[Parameters, np.ndarray, int, int], float],
    window: int,
    *,
    gaussian: bool,
) -> Formula:
    """Softmax within a window around middle(parameters, query, its number, how many keys there are)."""

    def formula(
        parameters: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        weights = np.zeros(mask.shape)
        for b, i in np.ndindex(mask.shape[:2]):
            there = np.flatnonzero(key[b].any(-1))  # what stands behind a key mask has been set to zero
            center = middle(parameters, query[b, i], i, len(there))
            at = {j: s for s, j in enumerate(there) if mask[b, i, j] and abs(s - center) <= window}
            weights[b, i] = softmax({j: score(parameters, query[b, i], key[b, j]) for j in at}, mask.shape[2])
            if gaussian:
                for j, s in at.items():
                    weights[b, i, j] *= math.exp(-((s - center) ** 2) / (2 * (window / 2) ** 2))
        return weights @ value, weights

    return formula


def _step(p: Parameters, q: np.ndarray, i: int, count: int) -> float:
    return min(i, count - 1)


def _predicted(p: Parameters, q: np.ndarray, i: int, count: int) -> float:
    logit = p["position_weight"].dot(np.tanh(p["position_projection.weight"].dot(q)))
    return count / (1 + math.exp(-logit))


def _monotonic_additive() -> LocalMonotonic:
    return LocalMonotonic(DQ, key_size=DK, window=1, scorer=Additive(DQ, key_size=DK, attention_size=DA))


def _predictive_additive() -> LocalPredictive:
    scorer = Additive(DQ, key_size=DK, attention_size=DA)
    return LocalPredictive(DQ, key_size=DK, position_size=DA, window=5, scorer=scorer)


CASES = [
    Case(
        "local_monotonic",
        lambda: LocalMonotonic(DQ, key_size=DK, window=2),
        _by_window(_general, _step, 2, gaussian=False),
    ),
    Case("local_monotonic_additive", _monotonic_additive, _by_window(_additive, _step, 1, gaussian=False)),
    Case(
        "local_predictive",
        lambda: LocalPredictive(DQ, key_size=DK, window=3),
        _by_window(_general, _predicted, 3, gaussian=True),
    ),
    Case("local_predictive_additive", _predictive_additive, _by_window(_additive, _predicted, 5, gaussian=True)),
]
