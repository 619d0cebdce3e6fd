"""Mechanisms that are a softmax over one score for each query and key."""

import math

import numpy as np
from contracts.cases.base import DA, DK, DQ, Case, Parameters, by_score

from regard.attention import Additive, Concat, Cosine, Dot, General, LinearConcat, ScaledDot, SumConcat, Trilinear


def _additive(p: Parameters, q: np.ndarray, k: np.ndarray) -> float:
    hidden = p["query_projection.weight"].dot(q) + p["key_projection.weight"].dot(k) + p.get("key_projection.bias", 0)
    return p["score_weight"].dot(np.tanh(hidden))


def _dot(q: np.ndarray, k: np.ndarray) -> float:
    return sum(a * b for a, b in zip(q, k, strict=True))


def _trilinear(p: Parameters, q: np.ndarray, k: np.ndarray) -> float:
    return p["weight"].ravel().dot(np.concatenate([q, k, q * k]))


CASES = [
    Case("additive", lambda: Additive(DQ, key_size=DK, attention_size=DA), by_score(_additive)),
    Case("additive_bias", lambda: Additive(DQ, key_size=DK, bias=True), by_score(_additive)),
    Case(
        "concat",
        lambda: Concat(DQ, key_size=DK, attention_size=DA),
        by_score(lambda p, q, k: p["score_weight"].dot(np.tanh(p["projection.weight"].dot(np.concatenate([q, k]))))),
    ),
    Case(
        "sum_concat",
        lambda: SumConcat(DK, attention_size=DA),
        by_score(lambda p, q, k: p["score_weight"].dot(np.tanh(p["projection.weight"].dot(q + k)))),
    ),
    Case("dot", lambda: Dot(DK), by_score(lambda p, q, k: _dot(q, k))),
    Case("scaled_dot", lambda: ScaledDot(DK), by_score(lambda p, q, k: _dot(q, k) / math.sqrt(DK))),
    Case("general", lambda: General(DQ, key_size=DK), by_score(lambda p, q, k: k.dot(p["projection.weight"].dot(q)))),
    Case(
        "cosine",
        lambda: Cosine(DK, scale=3.0),
        by_score(lambda p, q, k: p["gain"] * _dot(q, k) / math.sqrt(_dot(q, q) * _dot(k, k)) if k.any() else 0.0),
    ),
    Case("trilinear", lambda: Trilinear(DK), by_score(_trilinear)),
    Case(
        "linear",
        lambda: LinearConcat(DQ, key_size=DK),
        by_score(lambda p, q, k: p["projection.weight"][0].dot(np.concatenate([q, k])) + p["projection.bias"][0]),
    ),
]
