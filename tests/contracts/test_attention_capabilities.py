"""Reweighting and observing, for every attention mechanism; what a mechanism declares for fast paths."""

import pytest
import torch
from contracts.attention_cases import BY_NAME, DIFFERENT
from contracts.battery import inputs, made, masks
from quick import quick
from torch import nn

from regard.attention import (
    Additive,
    General,
    MultiHead,
    ScaledDot,
    Softmax,
)
from regard.errors import ShapeError


@pytest.fixture(params=quick(BY_NAME, DIFFERENT.__contains__))
def case(request):
    reason = request.param.refused.get(request.function.__name__.removeprefix("test_"))
    if reason:
        pytest.skip(f"{request.param.name}: {reason}")
    return request.param


def test_reweight_that_changes_nothing(case):
    attention, kept = made(case), masks("key")
    query, key, value = inputs(case, attention)
    memory = attention.prepare(key, value, **kept)
    plain, _ = attention.attend(query, memory)
    same, _ = attention.attend(query, memory, reweight=lambda weights, mask: weights)
    torch.testing.assert_close(same.context, plain.context, rtol=0, atol=1e-12)
    torch.testing.assert_close(same.weights, plain.weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("need_weights", [True, False])
def test_reweight_takes_the_place_of_the_weights(case, need_weights):
    attention, kept = made(case), masks("key_with_empty_row")
    query, key, value = inputs(case, attention)
    memory = attention.prepare(key, value, **kept)
    seen = []

    def one_key(weights, mask):
        seen.append((weights, mask.expand(weights.shape)))
        return torch.zeros_like(weights).index_fill(-1, torch.tensor([2]), 1)

    out, _ = attention.attend(query, memory, reweight=one_key, need_weights=need_weights)
    assert all((weights[~mask] == 0).all() for weights, mask in seen)
    assert sum(weights.shape[-2] for weights, _ in seen) == query.shape[1]
    if need_weights:
        assert out.weights[..., 2].eq(1).all()
        assert out.weights.sum() == out.weights[..., 0].numel()
    else:
        assert out.weights is None
    if isinstance(attention, MultiHead):  # its output map comes after
        groups = attention.num_heads // memory.value.shape[1]
        chosen = memory.value[:, :, 2:3].repeat_interleave(groups, 1).expand(-1, -1, query.shape[1], -1)
        expected = attention.output(chosen, query).masked_fill(~kept["key_mask"].any(-1)[:, None, None], 0)
    else:
        expected = memory.value[:, 2, None].expand_as(out.context)
    torch.testing.assert_close(out.context, expected, rtol=0, atol=1e-12)


def test_reweight_of_another_shape_is_refused(case):
    attention = made(case)
    query, key, value = inputs(case, attention)
    memory = attention.prepare(key, value)
    message = r"^reweight returned weights of shape .*, expected the shape of the weights that it got"
    with pytest.raises(ShapeError, match=message):
        attention.attend(query, memory, reweight=lambda weights, mask: weights[..., 1:])


def test_an_observer_sees_every_call_and_changes_nothing(case):
    attention, kept = made(case), masks("key")
    query, key, value = inputs(case, attention)
    plain = attention(query, key, value, **kept)
    seen, again = [], []
    with attention.observe(seen.append):
        assert attention.observed
        with attention.observe(again.append):
            attention(query, key, value, **kept, need_weights=False)
        out = attention(query, key, value, **kept, need_weights=False)
    assert not attention.observed
    assert (len(seen), len(again)) == (2, 1)
    assert out.weights is None
    torch.testing.assert_close(out.context, plain.context, rtol=0, atol=1e-12)
    assert seen[0].query is query
    assert seen[0].key is key
    assert not seen[0].within
    torch.testing.assert_close(seen[1].weights, plain.weights, rtol=0, atol=1e-12)
    assert not seen[0].weights.requires_grad


def test_the_context_has_the_width_that_is_declared(case):
    attention = made(case)
    out = attention(*inputs(case, attention))
    assert out.context.shape[-1] == attention.context_size(case.value_size)


def test_a_loss_comes_where_it_is_declared(case):
    attention = made(case)
    out = attention(*inputs(case, attention))
    assert attention.has_loss == (out.loss is not None)


def test_a_subclass_takes_no_kernel_of_its_parent():
    class Sharper(General):
        def scores(self, query, memory):
            return 10 * super().scores(query, memory)

    class Declared(Sharper):
        supports_fused = True

    assert General.supports_fused
    assert not Sharper.supports_fused
    assert Declared.supports_fused
    query, key = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    sharper = Sharper(5)
    with_weights, without = sharper(query, key), sharper(query, key, need_weights=False)
    torch.testing.assert_close(with_weights.context, without.context)


def test_a_softmax_with_a_formula_of_its_own_takes_no_kernel():
    class Half(Softmax):
        def forward(self, scores):
            return super().forward(scores) / 2

    class Foreign(nn.Module):
        def forward(self, scores):
            return scores.softmax(-1) / 2

    query, key = torch.randn(2, 3, 6), torch.randn(2, 4, 6)
    for normalizer in (Half(), Foreign()):
        for attention in (
            ScaledDot(6, normalizer=normalizer),
            Additive(6, normalizer=normalizer),
            MultiHead(6, num_heads=2, normalizer=normalizer),
        ):
            plain, fused = attention(query, key), attention(query, key, need_weights=False)
            torch.testing.assert_close(plain.context, fused.context)
            torch.testing.assert_close(plain.weights.sum(-1), torch.full_like(plain.weights[..., 0], 0.5))
