"""Attention that sees its last weights through filters that slide over the keys."""

import numpy as np
from contracts.cases.base import DA, DK, DQ, Case, Formula, Parameters, softmax

from regard.attention import LocationSensitive


def _location(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> tuple:
    weights = np.zeros(mask.shape)
    filters = p["convolution.weight"][:, 0]  # (C,R)
    half = filters.shape[1] // 2
    for b, i in np.ndindex(mask.shape[:2]):
        last = weights[b, i - 1] if i else np.zeros(mask.shape[2])
        scores = {}
        for j in np.flatnonzero(mask[b, i]):
            features = np.zeros(len(filters))
            for c, r in np.ndindex(filters.shape):
                if 0 <= j + r - half < len(last):
                    features[c] += filters[c, r] * last[j + r - half]
            hidden = p["query_projection.weight"].dot(query[b, i]) + p["key_projection.weight"].dot(key[b, j])
            hidden += p["feature_projection.weight"].dot(features) + p["key_projection.bias"]
            scores[j] = p["score_weight"].dot(np.tanh(hidden))
        weights[b, i] = softmax(scores, mask.shape[2])
    return weights @ value, weights


_formula: Formula = _location

CASES = [
    Case(
        "location_sensitive",
        lambda: LocationSensitive(DQ, key_size=DK, attention_size=DA, num_filters=3, kernel_size=5),
        _formula,
    ),
    # Filters wider than the keys are many.
    Case("location_sensitive_wide", lambda: LocationSensitive(DQ, key_size=DK, num_filters=1, kernel_size=41), _formula),
]
