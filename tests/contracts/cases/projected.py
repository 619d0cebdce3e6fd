"""Mechanisms with heads and projections of their own: linear attention and Gated DeltaNet."""

import math
from collections.abc import Callable

import numpy as np
from contracts.cases.base import DV, Case, Formula, Parameters
from contracts.cases.multihead import STEPS

from regard.attention import GatedDeltaNet, LinearAttention

H = 5
Head = Callable[[Parameters, int, np.ndarray, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(parameters, number of the head, query (D), the keys that it sees (k,Dk), their values (k,Dv), their positions (k)) → what
the head reads, and its weights (k)."""


def linear(p: Parameters, name: str, x: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
    out = x @ p[f"{name}_projection.weight"][rows].T
    return out + p[f"{name}_projection.bias"][rows] if f"{name}_projection.bias" in p else out


def own(p: Parameters, h: int, heads: int, name: str, x: np.ndarray) -> np.ndarray:
    """A head's features of one map."""
    size = len(p[f"{name}_projection.weight"]) // heads
    return linear(p, name, x, slice(h * size, (h + 1) * size))


def plain_output(p: Parameters, heads: list[np.ndarray], query: np.ndarray) -> np.ndarray:
    return linear(p, "output", np.concatenate(heads))


def by_head(head: Head, *, causal: bool = False, output=plain_output) -> Formula:
    """One query and one head after another; each sees only the keys that it may attend to."""

    def formula(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray):
        (batch, heads, queries, keys), context = mask.shape, np.zeros(query.shape)
        weights = np.zeros(mask.shape)
        for b, i in np.ndindex(batch, queries):
            found = []
            for h in range(heads):
                seen = [j for j in np.flatnonzero(mask[b, h, i]) if not causal or j <= i + keys - queries]
                if seen:
                    read, weights[b, h, i, seen] = head(p, h, query[b, i], key[b, seen], value[b, seen], np.array(seen))
                    found.append(read)
            if found:
                context[b, i] = output(p, found, query[b, i])
        return context, weights

    return formula


def _linear_attention(p: Parameters, h: int, query: np.ndarray, key: np.ndarray, value: np.ndarray, at: np.ndarray):
    """Sums of similarities, eqs. 4 and 7 of Katharopoulos et al."""
    phi = np.vectorize(lambda x: x + 1 if x > 0 else math.exp(x))
    q, k, v = (own(p, h, H, n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    similar = np.array([phi(q).dot(phi(one)) for one in k])
    return (similar[:, None] * v).sum(0) / similar.sum(), similar / similar.sum()


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _gated_delta(p: Parameters, h: int, query: np.ndarray, key: np.ndarray, value: np.ndarray, at: np.ndarray):
    """Forwards for what the head reads, eq. 10 of Yang et al.; backwards from the query for the weight of each key."""
    q, k, v = (_silu(own(p, h, H, n, x)) for n, x in (("query", query), ("key", key), ("value", value)))
    length = np.linalg.norm(k, axis=1, keepdims=True)
    q, k = q / np.linalg.norm(q), np.divide(k, length, out=np.zeros_like(k), where=length > 0)
    rate = 1 / (1 + np.exp(-(key @ p["rate_projection.weight"][h])))
    step = np.log1p(np.exp(key @ p["decay_projection.weight"][h] + p["decay_bias"][h]))
    keep = np.exp(-math.exp(p["decay_scale"][h]) * step)
    state = np.zeros((v.shape[1], k.shape[1]))
    for a, b, one, written in zip(keep, rate, k, v, strict=True):
        state = state @ (a * (np.eye(len(one)) - b * np.outer(one, one))) + b * np.outer(written, one)
    weights, asked = np.zeros(len(k)), q
    for j in reversed(range(len(k))):
        weights[j] = rate[j] * k[j].dot(asked)
        asked = keep[j] * (asked - rate[j] * k[j].dot(asked) * k[j])
    return state @ q, weights


def _gated_output(p: Parameters, heads: list[np.ndarray], query: np.ndarray) -> np.ndarray:
    normed = [x / math.sqrt((x * x).mean() + 1e-5) * p["norm.weight"] for x in heads]
    return linear(p, "output", np.concatenate(normed) * _silu(linear(p, "gate", query)))


CASES = [
    Case("linear_attention", lambda: LinearAttention(15, H, key_size=DV), by_head(_linear_attention), heads=H),
    Case(
        "linear_attention_causal",
        lambda: LinearAttention(15, H, key_size=DV, causal=True),
        by_head(_linear_attention, causal=True),
        heads=H,
        refused=STEPS,
    ),
    Case("gated_delta", lambda: GatedDeltaNet(15, H, key_size=DV), by_head(_gated_delta, output=_gated_output), heads=H),
    Case(
        "gated_delta_causal",
        lambda: GatedDeltaNet(15, H, key_size=DV, causal=True),
        by_head(_gated_delta, causal=True, output=_gated_output),
        heads=H,
        refused=STEPS,
    ),
]
