"""Differential, forgetting, latent and contextual attention: steps and their states, special cases, and what they refuse."""

import math

import pytest
import torch
from torch import nn

from regard.attention import (
    ContextualPositionAttention,
    DifferentialAttention,
    ForgettingAttention,
    HeadMemory,
    LatentAttention,
    MultiHead,
    RelativeBias,
    Rotary,
)
from regard.errors import ConfigError

KINDS = {
    "differential": lambda **o: DifferentialAttention(12, 3, **o),
    "forgetting": lambda **o: ForgettingAttention(12, 3, initial_gate=0.5, **o),
    "latent": lambda **o: LatentAttention(12, 3, latent_size=5, positions=Rotary(), rotary_size=2, **o),
    "contextual": lambda **o: ContextualPositionAttention(12, 3, num_positions=4, **o),
}


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def built(kind, **options):
    torch.manual_seed(0)
    attention = kind(**options).double()
    if isinstance(attention, ContextualPositionAttention):
        nn.init.normal_(attention.position_table)
    return attention.eval()


def near(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def same_maps(attention, theirs: MultiHead):
    """Give two mechanisms the same four maps."""
    attention.load_state_dict(theirs.state_dict(), strict=False)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("beside", [False, True], ids=["keys are values", "values of their own"])
def test_steps_equal_one_call(name, beside):
    attention, x, values = built(KINDS[name], causal=True), drawn(2, 9, 12), drawn(2, 9, 12, seed=1)
    mask = torch.tensor([[False, False, True, True, False, True, True, True, True], [True] * 9])
    whole, state = attention(x, x, values if beside else None, key_mask=mask), None
    for start, end in ((0, 1), (1, 4), (4, 5), (5, 9)):
        part = x[:, start:end]
        memory = attention.prepare(part, values[:, start:end] if beside else None, key_mask=mask[:, start:end])
        out, state = attention.attend(part, memory, state)
        near(out.context, whole.context[:, start:end])
        near(out.weights, whole.weights[:, :, start:end, :end])
        assert isinstance(state, HeadMemory)
        state = state.select(torch.arange(2))


GROUPED = [name for name in KINDS if name != "latent"]


@pytest.mark.parametrize("name", GROUPED)
def test_steps_with_groups_windows_and_rotary_positions_equal_one_call(name):
    attention = built(KINDS[name], causal=True, num_kv_heads=1, window=(3, 0), positions=Rotary())
    x, state, contexts = drawn(2, 9, 12), None, []
    for start, end in ((0, 1), (1, 4), (4, 5), (5, 9)):
        out, state = attention.attend(x[:, start:end], attention.prepare(x[:, start:end]), state)
        contexts.append(out.context)
        assert state.key.shape[2] <= 3
    near(torch.cat(contexts, 1), attention(x).context)


@pytest.mark.parametrize("name", KINDS)
def test_a_bias_for_each_head_and_causality_by_a_bias(name):
    attention, x = built(KINDS[name]), drawn(2, 5, 12)
    later = torch.zeros(5, 5, dtype=torch.float64).masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -math.inf)
    causal = built(KINDS[name], causal=True)
    near(attention(x, score_bias=later).weights, causal(x).weights)
    one = torch.zeros(2, 3, 5, 5, dtype=torch.float64)
    one[:, 1] = drawn(2, 5, 5)
    plain, found = attention(x).weights, attention(x, score_bias=one).weights
    near(found[:, ::2], plain[:, ::2])
    assert (found[:, 1] - plain[:, 1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_inputs_of_half_types_give_finite_contexts_and_gradients(name, dtype):
    attention, x = built(KINDS[name], causal=True).to(dtype), (drawn(2, 40, 12) * 30).to(dtype).requires_grad_()
    out = attention(x)
    out.context.float().mean().backward()
    assert all(found.isfinite().all() for found in (out.context, out.weights, x.grad))


@pytest.mark.parametrize("name", KINDS)
def test_dropout_drops_weights_in_training_only(name):
    attention, x = built(KINDS[name], dropout=0.5), drawn(2, 9, 12)
    assert torch.equal(attention(x).context, attention(x).context)
    attention.train()
    assert not torch.equal(attention(x).context, attention(x).context)
    near(attention(x).weights, attention.eval()(x).weights)


def test_open_gates_make_forgetting_attention_multi_head():
    attention, theirs, x = built(KINDS["forgetting"]), MultiHead(12, 3).double(), drawn(2, 7, 12)
    same_maps(attention, theirs)
    with torch.no_grad():
        attention.gate_projection.weight.zero_()
        attention.gate_projection.bias.fill_(100)
    near(attention(x).weights, theirs(x).weights)


def test_masked_keys_do_not_let_others_fade():
    attention, x = built(KINDS["forgetting"]), drawn(1, 6, 12)
    mask = torch.tensor([[True, False, True, True, False, True]])
    near(attention(x[:, :2], x, key_mask=mask).weights[..., mask[0]], attention(x[:, :2], x[:, mask[0]]).weights)


def test_equal_halves_cancel_in_differential_attention():
    attention = DifferentialAttention(12, 3, initial_lambda=0.25).double()
    with torch.no_grad():
        attention.lambda_vectors.zero_()
        for linear in (attention.query_projection, attention.key_projection):
            halves = linear.weight.unflatten(0, (3, 2, 2))
            halves[:, 1] = halves[:, 0]
    near(attention(drawn(2, 3, 12)).weights.sum(-1), torch.full((2, 3, 3), 0.75).double())
    assert (attention(drawn(2, 3, 12)).weights > 0).all()


def test_the_memory_of_latent_attention_is_one_vector_for_each_key():
    attention, x = built(KINDS["latent"], causal=True), drawn(2, 9, 12)
    memory = attention.prepare(x)
    assert memory.key.shape == (2, 1, 9, 7)
    assert memory.value.numel() == 0
    _, state = attention.attend(x, memory)
    assert state.key.shape == (2, 1, 9, 7)
    assert state.value.numel() == 0


def test_the_rotary_part_depends_on_distances_only():
    attention, x = built(KINDS["latent"]), drawn(1, 1, 12)
    weights = attention(x.expand(1, 6, 12)).weights
    scores = weights.log()
    for query, key in ((2, 1), (4, 3)):  # the same distance, and the same sum over keys is taken off
        near(scores[..., query, key] - scores[..., query, query], scores[..., 1, 0] - scores[..., 1, 1])
    assert (scores[..., 1, 0] - scores[..., 1, 1]).abs().max() > 1e-3


@pytest.mark.parametrize(("build", "message"), [
    (lambda: DifferentialAttention(15, 3), r"a head has 5 features; its two softmaxes take half of them each.*must be even"),
    (lambda: DifferentialAttention(12, 3, initial_lambda=1.0), r"initial_lambda must be a finite number above 0 and below 1"),
    (lambda: ForgettingAttention(12, 3, initial_gate="high"), r"ForgettingAttention\(initial_gate='high'\)"),
    (lambda: ContextualPositionAttention(12, 3, num_positions=0), r"num_positions=0"),
    (lambda: LatentAttention(12, 3, latent_size=0), r"latent_size=0"),
    (lambda: LatentAttention(12, 3, query_latent_size=0), r"query_latent_size=0"),
    (lambda: LatentAttention(12, 3, rotary_size=2), r"rotary_size=2\): rotary_size needs positions; give positions=Rotary\(\)"),
    (lambda: LatentAttention(12, 3, positions=Rotary(), rotary_size=3), r"rotated in pairs"),
    (lambda: LatentAttention(12, 3, positions=RelativeBias(3)), r"LatentAttention\(positions=RelativeBias"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()
