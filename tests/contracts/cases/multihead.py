"""Self-attention and multi-head attention with its options."""

import math
from collections.abc import Callable

import numpy as np
import torch
from contracts.cases.base import DV, Case, Formula, Parameters, softmax

from regard.attention import (
    AddedKeys,
    ALiBi,
    MultiHead,
    OutputGate,
    QKNorm,
    RelativeBias,
    Rotary,
    SelfAttention,
    TalkingHeads,
)

Turn = Callable[[np.ndarray, int], np.ndarray]
Bias = Callable[[Parameters, int, int, int], float]
H = 5


def _linear(p: Parameters, name: str, x: np.ndarray) -> np.ndarray:
    return p[f"{name}_projection.weight"].dot(x) + p.get(f"{name}_projection.bias", 0)


def _self(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray):
    weights, context = np.zeros(mask.shape), np.zeros((*query.shape[:2], value.shape[2]))
    for b, i in np.ndindex(mask.shape[:2]):
        q = _linear(p, "query", query[b, i])
        scores = {j: q.dot(_linear(p, "key", key[b, j])) / math.sqrt(len(q)) for j in np.flatnonzero(mask[b, i])}
        weights[b, i] = softmax(scores, mask.shape[2])
        for j in scores:
            context[b, i] += weights[b, i, j] * _linear(p, "value", value[b, j])
    return context, weights


def by_head(
    heads: int,
    kv_heads: int,
    *,
    reach: Callable[[int, int], bool] = lambda i, j: True,
    turn: Turn = lambda x, position: x,
    bias: Bias = lambda p, h, i, j: 0.0,
    size: int | None = None,
    output: int | None = None,
    scale: float | None = None,
    norm: Callable[[Parameters, str, np.ndarray], np.ndarray] = lambda p, name, x: x,
    gate: Callable[[Parameters, np.ndarray], np.ndarray | float] = lambda p, x: 1.0,
) -> Formula:
    """Multi-head attention. `reach(i, j)`: may a query at position i see a key at j; `turn` and `bias` are the positions'."""
    head_size = size

    def formula(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray):
        (batch, _, queries, keys), size = mask.shape, head_size or query.shape[2] // heads
        weights, context = np.zeros(mask.shape), np.zeros((*query.shape[:2], output or query.shape[2]))
        for b, i in np.ndindex(batch, queries):
            at, joined, some = i + keys - queries, np.zeros(heads * size), False
            for h in range(heads):
                own, shared = slice(h * size, (h + 1) * size), h * kv_heads // heads
                theirs = slice(shared * size, (shared + 1) * size)
                q = turn(norm(p, "query", _linear(p, "query", query[b, i])[own]), at)
                scores = {}
                for j in np.flatnonzero(mask[b, h, i]):
                    if reach(at, j):
                        k = turn(norm(p, "key", _linear(p, "key", key[b, j])[theirs]), j)
                        scores[j] = q.dot(k) * (scale or 1 / math.sqrt(size)) + bias(p, h, at, j)
                weights[b, h, i] = softmax(scores, keys)
                for j in scores:
                    joined[own] += weights[b, h, i, j] * _linear(p, "value", value[b, j])[theirs]
                some = some or bool(scores)
            if some:
                context[b, i] = _linear(p, "output", joined * gate(p, query[b, i]))
        return context, weights

    return formula


def turned(x: np.ndarray, position: int) -> np.ndarray:
    """RoFormer, eq. 15: a block-diagonal matrix of rotations."""
    matrix = np.zeros((len(x), len(x)))
    for n in range(len(x) // 2):
        angle = position * 10000.0 ** (-2 * n / len(x))
        c, s = math.cos(angle), math.sin(angle)
        matrix[2 * n : 2 * n + 2, 2 * n : 2 * n + 2] = [[c, -s], [s, c]]
    return matrix.dot(x)


SLOPES = {5: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1]}
"""Of 5 heads: those of 4, and the first of 8."""


def t5_bucket(distance: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Bucket of (key − query), written from the description, in whole numbers and exact powers."""
    first = 0
    if bidirectional:
        buckets //= 2
        first, distance = (buckets if distance > 0 else 0), abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    step = 0  # the largest n with exact · (max_distance/exact)^(n/(buckets − exact)) ≤ distance
    while step + 1 < buckets - exact and exact ** (buckets - exact) * max_distance ** (step + 1) <= distance ** (
        buckets - exact
    ) * exact ** (step + 1):
        step += 1
    return first + exact + step


def rms(p: Parameters, name: str, x: np.ndarray) -> np.ndarray:
    return p[f"modifiers.0.{name}_norm.weight"] * x / math.sqrt(x.dot(x) / len(x) + 1e-6)


def gated(p: Parameters, query: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-p["modifiers.0.gate_projection.weight"].dot(query)))


def talking(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray):
    """Talking-heads attention, figure 1 of the paper: scores and weights of all heads are multiplied by a matrix each."""
    weights, context = np.zeros(mask.shape), np.zeros(query.shape)
    for b, i in np.ndindex(mask.shape[0], mask.shape[2]):
        q = _linear(p, "query", query[b, i]).reshape(H, -1)
        allowed = np.flatnonzero(mask[b, :, i].any(0))
        columns = [p["modifiers.0.score_weight"] @ (q * _linear(p, "key", key[b, j]).reshape(H, -1)).sum(1) for j in allowed]
        rows = np.zeros((H, mask.shape[3]))
        for h in range(H):
            rows[h] = softmax({j: s[h] / math.sqrt(q.shape[1]) for j, s in zip(allowed, columns, strict=True)}, mask.shape[3])
        weights[b, :, i] = p["modifiers.0.weight_weight"] @ rows
        values = np.array([_linear(p, "value", v) for v in value[b]]).reshape(len(value[b]), H, -1)
        if len(allowed):
            context[b, i] = _linear(p, "output", np.einsum("hk,khe->he", weights[b, :, i], values).ravel())
    return context, weights


def with_added(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray):
    """`add_bias_kv` and `add_zero_attn` of `nn.MultiheadAttention`: two more keys after the projections."""
    weights, context = np.zeros(mask.shape), np.zeros(query.shape)
    for b, i in np.ndindex(mask.shape[0], mask.shape[2]):
        joined = []
        for h, q in enumerate(_linear(p, "query", query[b, i]).reshape(H, -1)):
            ks = [_linear(p, "key", k).reshape(H, -1)[h] for k in key[b]] + [p["modifiers.0.added_key"][h, 0], 0 * q]
            vs = [_linear(p, "value", v).reshape(H, -1)[h] for v in value[b]] + [p["modifiers.0.added_value"][h, 0], 0 * q]
            allowed = [*np.flatnonzero(mask[b, h, i]), len(ks) - 2, len(ks) - 1]
            row = softmax({j: q.dot(ks[j]) / math.sqrt(len(q)) for j in allowed}, len(ks))
            weights[b, h, i] = row[:-2]
            joined.append(sum(row[j] * vs[j] for j in allowed))
        context[b, i] = _linear(p, "output", np.concatenate(joined))
    return context, weights


def spread(attention: MultiHead) -> MultiHead:
    """The same with drawn weights in place of those that begin as ones or as the identity."""
    for parameter in attention.modifiers.parameters():
        torch.nn.init.normal_(parameter, mean=0.5, std=0.2)
    return attention


NEVER_EMPTY = "a query without a key of the call attends to the added ones"
ADDED = {
    "rows_sum_to_one_or_with_nothing_to_attend_to_to_zero": NEVER_EMPTY,
    "an_empty_row_has_finite_gradients_and_gives_none": NEVER_EMPTY,
    "reweight_takes_the_place_of_the_weights": "the weights of added keys stay",
}
GATED = {"reweight_takes_the_place_of_the_weights": "a gate follows the weights"}
STEPS = {
    "step_by_step_equals_all_at_once": "a step brings its own keys, and its state joins them to those before: "
    "tests/attention/test_multihead.py holds the two together"
}
ALONE = {
    "step_by_step_equals_all_at_once": "its weights depend on distances, and a query that comes alone sits at the last key"
}

CASES = [
    Case("self", lambda: SelfAttention(DV), _self),
    Case("multihead", lambda: MultiHead(15, num_heads=H, key_size=DV), by_head(H, H), heads=H),
    Case("multihead_no_bias", lambda: MultiHead(10, num_heads=H, key_size=DV, bias=False), by_head(H, H), heads=H),
    Case("grouped", lambda: MultiHead(12, num_heads=6, num_kv_heads=2, key_size=DV), by_head(6, 2), heads=6),
    Case("multi_query", lambda: MultiHead(15, num_heads=H, num_kv_heads=1, key_size=DV), by_head(H, 1), heads=H),
    Case(
        "own_widths",
        lambda: MultiHead(15, num_heads=H, key_size=DV, head_size=4, output_size=6, scale=0.3),
        by_head(H, H, size=4, output=6, scale=0.3),
        heads=H,
    ),
    Case(
        "qk_norm_rotary",
        lambda: spread(MultiHead(12, 6, num_kv_heads=2, key_size=DV, positions=Rotary(), modifiers=[QKNorm()])),
        by_head(6, 2, turn=turned, norm=rms),
        heads=6,
        refused=ALONE,
    ),
    Case(
        "output_gate",
        lambda: spread(MultiHead(15, num_heads=H, key_size=DV, modifiers=[OutputGate()])),
        by_head(H, H, gate=gated),
        heads=H,
        refused=GATED,
    ),
    Case(
        "talking_heads",
        lambda: spread(MultiHead(15, num_heads=H, key_size=DV, modifiers=[TalkingHeads()])),
        talking,
        heads=H,
    ),
    Case(
        "added_keys",
        lambda: spread(MultiHead(15, num_heads=H, key_size=DV, modifiers=[AddedKeys(zero=True)])),
        with_added,
        heads=H,
        refused=ADDED,
    ),
    Case(
        "causal",
        lambda: MultiHead(15, num_heads=H, key_size=DV, causal=True),
        by_head(H, H, reach=lambda i, j: j <= i),
        heads=H,
        refused=STEPS,
    ),
    Case(
        "window",
        lambda: MultiHead(15, num_heads=H, key_size=DV, window=(3, 1)),
        by_head(H, H, reach=lambda i, j: i - 3 <= j <= i + 1),
        heads=H,
        refused=ALONE,
    ),
    Case(
        "causal_window_rotary",
        lambda: MultiHead(20, num_heads=H, key_size=DV, causal=True, window=(5, 2), positions=Rotary()),
        by_head(H, H, reach=lambda i, j: i - 5 <= j <= i, turn=turned),
        heads=H,
        refused=STEPS,
    ),
    Case(
        "rotary",
        lambda: MultiHead(20, num_heads=H, num_kv_heads=1, key_size=DV, positions=Rotary()),
        by_head(H, 1, turn=turned),
        heads=H,
        refused=ALONE,
    ),
    Case(
        "alibi",
        lambda: MultiHead(15, num_heads=H, key_size=DV, positions=ALiBi(H)),
        by_head(H, H, bias=lambda p, h, i, j: -SLOPES[H][h] * abs(i - j)),
        heads=H,
        refused=ALONE,
    ),
    Case(
        "alibi_causal",
        lambda: MultiHead(15, num_heads=H, key_size=DV, causal=True, positions=ALiBi(H)),
        by_head(H, H, reach=lambda i, j: j <= i, bias=lambda p, h, i, j: SLOPES[H][h] * (j - i)),
        heads=H,
        refused=STEPS,
    ),
    Case(
        "t5_bias",
        lambda: MultiHead(15, num_heads=H, key_size=DV, positions=RelativeBias(H, num_buckets=8, max_distance=14)),
        by_head(H, H, bias=lambda p, h, i, j: p["positions.weight"][t5_bucket(j - i, 8, 14, True), h]),
        heads=H,
        refused=ALONE,
    ),
    Case(
        "t5_bias_causal",
        lambda: MultiHead(
            15,
            num_heads=H,
            key_size=DV,
            causal=True,
            positions=RelativeBias(H, num_buckets=6, max_distance=11, bidirectional=False),
        ),
        by_head(
            H, H, reach=lambda i, j: j <= i, bias=lambda p, h, i, j: p["positions.weight"][t5_bucket(j - i, 6, 11, False), h]
        ),
        heads=H,
        refused=STEPS,
    ),
]
