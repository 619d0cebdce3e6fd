"""Compare weights with the reference functions of fla (flash-linear-attention), which are plain PyTorch and run on a CPU."""

import math
from importlib import import_module
from types import ModuleType

import pytest
import torch
from torch import Tensor

from regard.attention import causal_mask, window_mask
from regard.attention.heads.attend import head_scores
from regard.attention.heads.forgetting import forgetting_bias
from regard.attention.heads.gated_delta import implied_weights
from regard.attention.heads.linear import feature_map, linear_weights
from regard.attention.normalizers.sink import sink_weights, stick_breaking_weights
from regard.attention.normalizers.softmax import masked_softmax

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
B, T, H, E = 2, 128, 3, 8  # T is a multiple of 64, the chunk size of fla's functions


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def inputs() -> list[Tensor]:
    """Return queries, keys and values (B,T,H,E), the layout of fla."""
    return [drawn(B, T, H, E, seed=seed) for seed in range(3)]


def by_head(*tensors: Tensor) -> list[Tensor]:
    """Return the tensors as (B,H,T,…), the layout of regard."""
    return [one.transpose(1, 2) for one in tensors]


def reference(name: str) -> ModuleType:
    pytest.importorskip("fla.ops")
    return import_module(f"fla.ops.{name}.naive")


def check(weights: Tensor, value: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close((weights @ value.transpose(1, 2)).transpose(1, 2), wanted, rtol=1e-5, atol=1e-5)
    assert wanted.abs().max() > 0.1


def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
    return head_scores(*by_head(query, key))


def visible(window: int | None) -> Tensor:
    """Return a mask that lets each query attend to the last `window` keys, including its own; None: all keys up to its own."""
    return causal_mask(T) if window is None else window_mask(T, before=window - 1, after=0)


@pytest.mark.parametrize("window", [None, 5])
def test_softmax_attention(window):
    query, key, value = inputs()
    wanted, _ = reference("attn").naive_parallel_attn(query, key, value, window_size=window)
    check(masked_softmax(scaled_scores(query, key), visible(window)), value, wanted)


def test_softmax_with_a_sink():
    (query, key, value), sink = inputs(), drawn(H, seed=3)
    wanted, _ = reference("attn").naive_parallel_attn(query, key, value, sink_bias=sink)
    scores = scaled_scores(query, key).masked_fill(~visible(None), -math.inf)
    check(sink_weights(scores, sink.view(H, 1, 1)), value, wanted)


@pytest.mark.parametrize("window", [None, 5])
def test_forgetting_attention(window):
    (query, key, value), gates = inputs(), drawn(B, T, H, seed=3).sigmoid().log()
    wanted = reference("forgetting_attn").naive_forgetting_attn(query, key, value, gates, window_size=window)
    query, key, gates = by_head(query, key, gates)
    scores = head_scores(query, key) + forgetting_bias(gates, visible(window))
    check(masked_softmax(scores, visible(window)), value, wanted)


def test_stick_breaking_attention():
    query, key, value = inputs()
    wanted, left = reference("stickbreaking_attn").naive_stickbreaking_attn(query, key, value, attend_current=True)
    weights = stick_breaking_weights(scaled_scores(query, key).masked_fill(~visible(None), -math.inf))
    check(weights, value, wanted)
    torch.testing.assert_close(1 - weights.sum(-1), left.transpose(1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
def test_linear_attention(form):
    query, key, value = inputs()
    query, key = feature_map(query), feature_map(key)
    compute = getattr(reference("linear_attn"), f"naive_{form}_linear_attn")
    found = compute(query, key, value, scale=1.0, normalize=True)
    wanted = found if isinstance(found, Tensor) else found[0]  # the recurrent form also returns a state
    check(linear_weights(*by_head(query, key), visible(None)), value, wanted)


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
def test_gated_delta_rule(form):
    query, key, value = inputs()
    key, rate, decay = torch.nn.functional.normalize(key, dim=-1), *(drawn(B, T, H, seed=seed).sigmoid() for seed in (3, 4))
    compute = getattr(reference("gated_delta_rule"), f"naive_{form}_gated_delta_rule")
    wanted, *_ = compute(query, key, value, beta=rate, g=decay.log(), scale=1.0)
    gates = torch.stack([decay.log(), rate], -1)
    check(implied_weights(*by_head(query, key, gates), torch.eye(T)), value, wanted)
