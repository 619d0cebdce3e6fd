"""The scores of `scored.py` with the other normalizers."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from contracts.cases.base import DA, DK, DQ, Case, Formula, Parameters, softmax
from torch import nn

from regard.attention import (
    Additive,
    Attention,
    Dot,
    Entmax,
    Entmax15,
    ScaledDot,
    Sigmoid,
    SoftCap,
    SoftmaxSink,
    Softpick,
    Sparsemax,
    StickBreaking,
    Temperature,
)

Normalize = Callable[[Mapping[int, float], int], np.ndarray]


def by_bisection(power: float) -> Normalize:
    """w_k = max(s_k·(α−1) − τ, 0)^(1/(α−1)) for α = 1 + 1/power, with τ found by halving: what sparsemax (1) and 1.5-entmax (2)
    are, by another way than sorting."""

    def normalize(scores: Mapping[int, float], size: int) -> np.ndarray:
        weights = np.zeros(size)
        if not scores:
            return weights
        z = {j: s / power for j, s in scores.items()}
        low, high = max(z.values()) - 1, max(z.values())
        for _ in range(100):
            middle = (low + high) / 2
            total = sum(max(x - middle, 0) ** power for x in z.values())
            low, high = (middle, high) if total > 1 else (low, middle)
        for j, x in z.items():
            weights[j] = max(x - low, 0) ** power
        return weights

    return normalize


def _sigmoid(scores: Mapping[int, float], size: int) -> np.ndarray:
    weights = np.zeros(size)
    for j, s in scores.items():
        weights[j] = 1 / (1 + math.exp(-s))
    return weights


def _sink(scores: Mapping[int, float], size: int) -> np.ndarray:
    weights = np.zeros(size)
    total = math.exp(0.3) + sum(math.exp(s) for s in scores.values())
    for j, s in scores.items():
        weights[j] = math.exp(s) / total
    return weights


def _softpick(scores: Mapping[int, float], size: int) -> np.ndarray:
    weights = np.zeros(size)
    total = sum(abs(math.exp(s) - 1) for s in scores.values()) + 1e-6
    for j, s in scores.items():
        weights[j] = max(math.exp(s) - 1, 0) / total
    return weights


def _stick_breaking(scores: Mapping[int, float], size: int) -> np.ndarray:
    weights, left = np.zeros(size), 1.0
    for j in sorted(scores, reverse=True):
        share = 1 / (1 + math.exp(-scores[j]))
        weights[j] = left * share
        left *= 1 - share
    return weights


def _capped(normalize: Normalize, cap: float) -> Normalize:
    return lambda scores, size: normalize({j: cap * math.tanh(s / cap) for j, s in scores.items()}, size)


def _tempered(normalize: Normalize, temperature: float) -> Normalize:
    return lambda scores, size: normalize({j: s / temperature for j, s in scores.items()}, size)


def _additive(p: Parameters, q: np.ndarray, k: np.ndarray) -> float:
    return p["score_weight"].dot(np.tanh(p["query_projection.weight"].dot(q) + p["key_projection.weight"].dot(k)))


def _formula(score: Callable[[Parameters, np.ndarray, np.ndarray], float], normalize: Normalize) -> Formula:
    def formula(
        parameters: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        weights = np.zeros(mask.shape)
        for b, i in np.ndindex(mask.shape[:2]):
            scores = {j: score(parameters, query[b, i], key[b, j]) for j in np.flatnonzero(mask[b, i])}
            weights[b, i] = normalize(scores, mask.shape[2])
        return weights @ value, weights

    return formula


def _with(
    name: str,
    normalizer: Callable[[], nn.Module],
    normalize: Normalize,
    of: tuple[str, ...] = ("additive", "dot", "scaled_dot"),
) -> list[Case]:
    builds: dict[str, tuple[Callable[[], Attention], Callable[[Parameters, np.ndarray, np.ndarray], float]]] = {
        "additive": (lambda: Additive(DQ, key_size=DK, attention_size=DA, normalizer=normalizer()), _additive),
        "dot": (lambda: Dot(DK, normalizer=normalizer()), lambda p, q, k: q.dot(k)),
        "scaled_dot": (lambda: ScaledDot(DK, normalizer=normalizer()), lambda p, q, k: q.dot(k) / math.sqrt(DK)),
    }
    chosen = {scorer: builds[scorer] for scorer in of}
    return [Case(f"{scorer}_{name}", build, _formula(score, normalize)) for scorer, (build, score) in chosen.items()]


CASES = [
    *_with("sparsemax", Sparsemax, by_bisection(1)),
    *_with("entmax15", Entmax15, by_bisection(2)),
    *_with("sigmoid", Sigmoid, _sigmoid),
    *_with("entmax", lambda: Entmax(alpha=1.25), by_bisection(4), ("dot",)),
    *_with("sink", lambda: SoftmaxSink(initial=0.3, dtype=torch.float64), _sink, ("dot",)),
    *_with("softpick", Softpick, _softpick, ("dot",)),
    *_with("stick_breaking", StickBreaking, _stick_breaking, ("dot",)),
    *_with("soft_cap", lambda: SoftCap(cap=0.7), _capped(softmax, 0.7), ("dot",)),
    *_with("temperature", lambda: Temperature(temperature=0.5), _tempered(softmax, 0.5)),
]
