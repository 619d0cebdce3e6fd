"""Monotonic attention and MoChA, soft and hard, and the paper's energy as a score of its own."""

import math

import numpy as np
import torch
from contracts.cases.base import DA, DK, DQ, Case, Parameters, by_score

from regard.attention import (
    Attention,
    General,
    HardMoChA,
    HardMonotonic,
    MoChA,
    MonotonicAttention,
    SoftMonotonic,
    WeightNormAdditive,
)

WINDOW = 3
Formula = tuple[np.ndarray, np.ndarray]


def weight_norm(p: Parameters, q: np.ndarray, k: np.ndarray, prefix: str = "") -> float:
    """g v/‖v‖ · tanh(W_q q + W_k k + b)."""
    hidden = p[prefix + "query_projection.weight"].dot(q) + p[prefix + "key_projection.weight"].dot(k)
    v = p[prefix + "score_weight"]
    return float(p[prefix + "gain"] * v.dot(np.tanh(hidden + p[prefix + "key_projection.bias"])) / math.sqrt(v.dot(v)))


def energies(p: Parameters, query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """e (Q,K) of one sentence."""
    score = _general if "scorer.projection.weight" in p else weight_norm
    return np.array([[score(p, q, k, "scorer.") for k in key] for q in query]) + p["offset"]


def _general(p: Parameters, q: np.ndarray, k: np.ndarray, prefix: str) -> float:
    return float(k.dot(p[prefix + "projection.weight"].dot(q)))


def double_sum(e: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """α by the sum over where the query before stopped and the product over what was passed over since (eq. 9)."""
    queries, keys = e.shape
    stop = np.array([[1 / (1 + math.exp(-x)) if x > -700 else 0.0 for x in row] for row in e]) * mask
    go_on = np.where(mask, [[1 / (1 + math.exp(x)) if x < 700 else 0.0 for x in row] for row in e], 1.0)
    previous, alpha = np.eye(1, keys)[0], np.zeros((queries, keys))
    for i in range(queries):
        for j in range(keys):
            alpha[i, j] = stop[i, j] * sum(previous[k] * math.prod(go_on[i, k:j]) for k in range(j + 1))
        previous = alpha[i]
    return alpha


def scan(e: np.ndarray, mask: np.ndarray) -> list[int | None]:
    """Where each query stops: the paper's algorithm, key by key; None once it ran off the end."""
    position, stops = 0, []
    for i in range(len(e)):
        while position < e.shape[1] and not (mask[i, position] and e[i, position] > 0):
            position += 1
        stops.append(position if position < e.shape[1] else None)
    return stops


def window(u: np.ndarray, mask: np.ndarray, end: int, size: int = WINDOW) -> np.ndarray:
    """Softmax over the keys of a window that are allowed."""
    weights = np.zeros(len(u))
    inside = [j for j in range(max(0, end - size + 1), end + 1) if mask[j]]
    top = max((u[j] for j in inside), default=0.0)
    for j in inside:
        weights[j] = math.exp(u[j] - top)
    return weights / max(weights.sum(), 1.0) if inside else weights


def soft(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> Formula:
    weights = np.stack([double_sum(energies(p, q, k), m) for q, k, m in zip(query, key, mask, strict=True)])
    return weights @ value, weights


def hard(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> Formula:
    weights = np.zeros(mask.shape)
    for b in range(len(query)):
        for i, end in enumerate(scan(energies(p, query[b], key[b]), mask[b])):
            if end is not None:
                weights[b, i, end] = 1
    return weights @ value, weights


def mocha(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> Formula:
    _, alpha = soft(p, query, key, value, mask)
    weights = np.zeros(mask.shape)
    for b, i in np.ndindex(mask.shape[:2]):
        u = [weight_norm(p, query[b, i], k, "chunk_scorer.") for k in key[b]]
        weights[b, i] = sum(alpha[b, i, end] * window(u, mask[b, i], end) for end in range(len(u)))
    return weights @ value, weights


def hard_mocha(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> Formula:
    _, stops = hard(p, query, key, value, mask)
    weights = np.zeros(mask.shape)
    for b, i, end in np.argwhere(stops):
        u = [weight_norm(p, query[b, i], k, "chunk_scorer.") for k in key[b]]
        weights[b, i] = window(u, mask[b, i], end)
    return weights @ value, weights


GAIN = 4.0
_OFF_THE_END = {"rows_sum_to_one_or_with_nothing_to_attend_to_to_zero": "normalized=False: what runs off the end has no weight"}


def _made(attention: MonotonicAttention, offset: float = -1.0) -> Attention:
    """In evaluation mode, so without noise; with energies of some size, that depend on the keys above all.

    The offsets of the hard forms lie in the middle of a gap: no energy of the battery's inputs is so near to zero that half
    precision would choose another key.
    """
    with torch.no_grad():
        attention.offset.fill_(offset)
        if isinstance(attention.scorer, WeightNormAdditive):
            attention.scorer.gain.fill_(GAIN)
            attention.scorer.key_projection.weight.mul_(GAIN)
    return attention.eval()


def _scorer() -> WeightNormAdditive:
    return WeightNormAdditive(DQ, key_size=DK, attention_size=DA)


CASES = [
    Case("weight_norm_additive", _scorer, by_score(weight_norm)),
    Case("soft_monotonic", lambda: _made(SoftMonotonic(DQ, scorer=_scorer())), soft, refused=_OFF_THE_END),
    Case(
        "soft_monotonic_general",
        lambda: _made(SoftMonotonic(DQ, scorer=General(DQ, key_size=DK))),
        soft,
        refused=_OFF_THE_END,
    ),
    Case(
        "hard_monotonic", lambda: _made(HardMonotonic(DQ, scorer=General(DQ, key_size=DK)), -1.658), hard, refused=_OFF_THE_END
    ),
    Case("mocha", lambda: _made(MoChA(DQ, key_size=DK, chunk_size=WINDOW)), mocha, refused=_OFF_THE_END),
    Case(
        "hard_mocha",
        lambda: _made(HardMoChA(DQ, key_size=DK, chunk_size=WINDOW), -3.759),
        hard_mocha,
        refused=_OFF_THE_END,
    ),
]
