"""Every mechanism that has a query, with an independent formula of its scores. A new class is one more line in `CASES`."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from regard.attention import Additive, Attention, Concat, Dot, General, LinearConcat, ScaledDot, SumConcat

DQ, DK, DA = 5, 7, 11
"""Widths of query, key and hidden layer: primes, and none equal to another axis, so that a transpose cannot hide."""

Score = Callable[[dict[str, np.ndarray], np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class Case:
    """A mechanism and its score for one query and one key, from its parameters by name, in plain numpy."""

    name: str
    build: Callable[[], Attention]
    score: Score


def _additive(p: dict[str, np.ndarray], q: np.ndarray, k: np.ndarray) -> float:
    hidden = p["query_projection.weight"].dot(q) + p["key_projection.weight"].dot(k) + p.get("key_projection.bias", 0)
    return p["score_weight"].dot(np.tanh(hidden))


CASES = [
    Case("additive", lambda: Additive(DQ, key_size=DK, attention_size=DA), _additive),
    Case("additive_bias", lambda: Additive(DQ, key_size=DK, bias=True), _additive),
    Case(
        "concat",
        lambda: Concat(DQ, key_size=DK, attention_size=DA),
        lambda p, q, k: p["score_weight"].dot(np.tanh(p["projection.weight"].dot(np.concatenate([q, k])))),
    ),
    Case(
        "sum_concat",
        lambda: SumConcat(DK, attention_size=DA),
        lambda p, q, k: p["score_weight"].dot(np.tanh(p["projection.weight"].dot(q + k))),
    ),
    Case("dot", lambda: Dot(DK), lambda p, q, k: sum(a * b for a, b in zip(q, k, strict=True))),
    Case("scaled_dot", lambda: ScaledDot(DK), lambda p, q, k: sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(DK)),
    Case("general", lambda: General(DQ, key_size=DK), lambda p, q, k: k.dot(p["projection.weight"].dot(q))),
    Case(
        "linear",
        lambda: LinearConcat(DQ, key_size=DK),
        lambda p, q, k: p["projection.weight"][0].dot(np.concatenate([q, k])) + p["projection.bias"][0],
    ),
]


def expected(
    case: Case,
    attention: Attention,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    key_mask: np.ndarray | None,
    attn_mask: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Context and weights in float64, row by row, key by key."""
    parameters = {name: p.detach().double().numpy() for name, p in attention.named_parameters()}
    (batch, queries), keys = query.shape[:2], key.shape[1]
    weights, context = np.zeros((batch, queries, keys)), np.zeros((batch, queries, value.shape[2]))
    for b in range(batch):
        for i in range(queries):
            allowed = [
                j
                for j in range(keys)
                if (key_mask is None or key_mask[b, j])
                and (attn_mask is None or (attn_mask[i, j] if attn_mask.ndim == 2 else attn_mask[b, i, j]))
            ]
            scores = {j: case.score(parameters, query[b, i], key[b, j]) for j in allowed}
            top = max(scores.values(), default=0.0)
            total = sum(math.exp(s - top) for s in scores.values())
            for j in allowed:
                weights[b, i, j] = math.exp(scores[j] - top) / total
                context[b, i] += weights[b, i, j] * value[b, j]
    return context, weights
