"""Attention that sees how much of each key it has used up, in its own right or against the key's fertility."""

import math

import numpy as np
from contracts.cases.base import DA, DK, DQ, Case, Parameters, softmax

from regard.attention import Coverage, FertilityCoverage


def _coverage(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> tuple:
    weights = np.zeros(mask.shape)
    for b, i in np.ndindex(mask.shape[:2]):
        scores = {}
        for j in np.flatnonzero(mask[b, i]):
            used = sum(weights[b, earlier, j] for earlier in range(i))
            if "fertility_projection.weight" in p:
                used /= MAX_FERTILITY / (1 + math.exp(-p["fertility_projection.weight"][0].dot(key[b, j])))
            hidden = p["query_projection.weight"].dot(query[b, i]) + p["key_projection.weight"].dot(key[b, j])
            hidden += p["coverage_weight"] * used + p.get("key_projection.bias", 0)
            scores[j] = p["score_weight"].dot(np.tanh(hidden))
        weights[b, i] = softmax(scores, mask.shape[2])
    return weights @ value, weights


MAX_FERTILITY = 3.5

CASES = [
    Case("coverage", lambda: Coverage(DQ, key_size=DK, attention_size=DA), _coverage),
    Case("coverage_no_bias", lambda: Coverage(DQ, key_size=DK, bias=False), _coverage),
    Case(
        "fertility_coverage",
        lambda: FertilityCoverage(DQ, key_size=DK, attention_size=DA, max_fertility=MAX_FERTILITY),
        _coverage,
    ),
]
