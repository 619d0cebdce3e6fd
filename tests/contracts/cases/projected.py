"""Mechanisms with heads and projections of their own, from linear attention to multi-head latent attention."""

import math
from collections.abc import Callable

import numpy as np
import torch
from contracts.cases.base import DV, Case, Formula, Parameters
from contracts.cases.multihead import ALONE, STEPS, turned

from regard.attention import (
    ContextualPositionAttention,
    DifferentialAttention,
    ForgettingAttention,
    GatedDeltaNet,
    LatentAttention,
    LinearAttention,
    Rotary,
)

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


def by_head(head: Head, *, causal: bool = False, output=plain_output, at_end: bool = False) -> Formula:
    """One query and one head after another; each sees only the keys that it may attend to.

    If `at_end`, a head gets its query's position before those of the keys.
    """

    def formula(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray):
        (batch, heads, queries, keys), context = mask.shape, np.zeros(query.shape)
        weights = np.zeros(mask.shape)
        for b, i in np.ndindex(batch, queries):
            found = []
            for h in range(heads):
                seen = [j for j in np.flatnonzero(mask[b, h, i]) if not causal or j <= i + keys - queries]
                if seen:
                    at = np.array([i + keys - queries, *seen] if at_end else seen)
                    read, weights[b, h, i, seen] = head(p, h, query[b, i], key[b, seen], value[b, seen], at)
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


def filled(attention: ContextualPositionAttention) -> ContextualPositionAttention:
    """With positions that are not zero."""
    torch.nn.init.normal_(attention.position_table)
    return attention


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def _differential(p: Parameters, h: int, query: np.ndarray, key: np.ndarray, value: np.ndarray, at: np.ndarray):
    """Eqs. 1 and 2 of Ye et al.: two heads of half the width share the values of one of the whole width."""
    q, k, v = (own(p, h, 3, n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    half = len(q) // 2
    one, two = (_softmax(k[:, part] @ q[part] / math.sqrt(half)) for part in (slice(half), slice(half, None)))
    a, b, c, d = p["lambda_vectors"]
    weights = one - (math.exp(a.dot(b)) - math.exp(c.dot(d)) + 0.3) * two
    return weights @ v, weights


def _differential_output(p: Parameters, heads: list[np.ndarray], query: np.ndarray) -> np.ndarray:
    """Eq. 3."""
    normed = [0.7 * x / math.sqrt((x * x).mean() + 1e-5) * p["norm.weight"] for x in heads]
    return linear(p, "output", np.concatenate(normed))


def _forgetting(p: Parameters, h: int, query: np.ndarray, key: np.ndarray, value: np.ndarray, at: np.ndarray):
    """The recurrence of section 3 of Lin et al.: with each key, all earlier terms fade by its gate."""
    q, k, v = (own(p, h, H, n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    terms = np.zeros(len(k))
    for j, one in enumerate(k):
        gate = 1 / (1 + math.exp(-(key[j] @ p["gate_projection.weight"][h] + p["gate_projection.bias"][h])))
        terms[:j] *= gate
        terms[j] = math.exp(one.dot(q) / math.sqrt(len(q)))
    return terms @ v / terms.sum(), terms / terms.sum()


def _contextual(p: Parameters, h: int, query: np.ndarray, key: np.ndarray, value: np.ndarray, at: np.ndarray):
    """Eqs. 3 to 5 of Golovneva et al., with the vector of each position between those of its whole neighbours."""
    q, k, v = (own(p, h, H, n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    scores, table, found = k @ q / math.sqrt(len(q)), p["position_table"], np.zeros(len(k))
    for j in range(len(k)):
        place = min(sum(1 / (1 + math.exp(-s)) for s in scores[j:]), len(table) - 1)
        low, high = math.floor(place), math.ceil(place)
        found[j] = scores[j] + q.dot((place - low) * table[high] + (1 - place + low) * table[low])
    return _softmax(found) @ v, _softmax(found)


def _latent(heads: int, *, width: int, rotary: int) -> Head:
    """Keys and values of each head, made from the short vector of each key, eqs. 9 to 19 of DeepSeek-V2."""

    def short(p: Parameters, x: np.ndarray) -> np.ndarray:
        c = x @ p["compression.weight"].T + p["compression.bias"]
        return c / math.sqrt((c * c).mean() + 1e-6) * p["norm.weight"]

    def head(p: Parameters, h: int, query: np.ndarray, key: np.ndarray, value: np.ndarray, at: np.ndarray):
        if "query_compression.weight" in p:
            query = query @ p["query_compression.weight"].T + p["query_compression.bias"]
            query = query / math.sqrt((query * query).mean() + 1e-6) * p["query_norm.weight"]
        q, part = own(p, h, heads, "query", query), slice(h * width, (h + 1) * width)
        scores, values = [], []
        for one, two, position in zip(key, value, at[1:], strict=True):
            k = p["key_expansion.weight"][part] @ short(p, one)
            score = q[:width].dot(k)
            if rotary:
                r = one @ p["rotary_projection.weight"].T + p["rotary_projection.bias"]
                score += turned(q[width:], at[0]).dot(turned(r, position))
            scores.append(score / math.sqrt(width + rotary))
            values.append(p["value_expansion.weight"][part] @ short(p, two))
        weights = _softmax(np.array(scores))
        return weights @ np.array(values), weights

    return head


CASES = [
    Case(
        "differential",
        lambda: DifferentialAttention(12, 3, key_size=DV, initial_lambda=0.3),
        by_head(_differential, output=_differential_output),
        heads=3,
    ),
    Case(
        "differential_causal",
        lambda: DifferentialAttention(12, 3, key_size=DV, initial_lambda=0.3, causal=True),
        by_head(_differential, output=_differential_output, causal=True),
        heads=3,
        refused=STEPS,
    ),
    Case("forgetting", lambda: ForgettingAttention(15, H, key_size=DV, initial_gate=0.5), by_head(_forgetting), heads=H),
    Case(
        "forgetting_causal",
        lambda: ForgettingAttention(15, H, key_size=DV, initial_gate=0.5, causal=True),
        by_head(_forgetting, causal=True),
        heads=H,
        refused=STEPS,
    ),
    Case(
        "contextual",
        lambda: filled(ContextualPositionAttention(15, H, key_size=DV, num_positions=4)),
        by_head(_contextual),
        heads=H,
    ),
    Case(
        "contextual_causal",
        lambda: filled(ContextualPositionAttention(15, H, key_size=DV, num_positions=4, causal=True)),
        by_head(_contextual, causal=True),
        heads=H,
        refused=STEPS,
    ),
    Case(
        "latent",
        lambda: LatentAttention(15, H, key_size=DV, latent_size=7),
        by_head(_latent(H, width=3, rotary=0), at_end=True),
        heads=H,
    ),
    Case(
        "latent_rotary",
        lambda: LatentAttention(15, H, key_size=DV, query_latent_size=11, positions=Rotary(), rotary_size=2),
        by_head(_latent(H, width=3, rotary=2), at_end=True),
        heads=H,
        refused=ALONE,
    ),
    Case(
        "latent_causal",
        lambda: LatentAttention(15, H, key_size=DV, latent_size=7, positions=Rotary(), rotary_size=2, causal=True),
        by_head(_latent(H, width=3, rotary=2), at_end=True, causal=True),
        heads=H,
        refused=STEPS,
    ),
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
