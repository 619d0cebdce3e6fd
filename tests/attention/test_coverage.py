"""Coverage: its loss, worked by hand and step by step, fertilities, and what is refused."""

import math

import pytest
import torch

from regard.attention import Additive, Coverage, FertilityCoverage, coverage_loss
from regard.errors import ConfigError, ShapeError


def test_the_first_query_is_answered_as_additive_attention_does():
    torch.manual_seed(0)
    coverage, additive = Coverage(5, key_size=7), Additive(5, key_size=7, bias=True)
    additive.load_state_dict(coverage.state_dict(), strict=False)
    query, key = torch.randn(2, 2, 5), torch.randn(2, 11, 7)
    ours, plain = coverage(query, key).weights, additive(query, key).weights
    torch.testing.assert_close(ours[:, 0], plain[:, 0])
    assert not torch.allclose(ours[:, 1], plain[:, 1], atol=1e-4)


def test_the_loss_is_the_mean_over_queries_that_may_attend():
    torch.manual_seed(0)
    attention = Coverage(5).double()
    query, key = torch.randn(2, 4, 5).double(), torch.randn(2, 6, 5).double()
    attn_mask = torch.ones(2, 4, 6, dtype=torch.bool)
    attn_mask[1, 2:] = False  # padding of the second target
    out = attention(query, key, attn_mask=attn_mask)
    weights, terms = out.weights.detach(), []
    for b, length in enumerate((4, 2)):
        for t in range(length):
            used = [sum(weights[b, earlier, k].item() for earlier in range(t)) for k in range(6)]
            terms.append(sum(min(weights[b, t, k].item(), used[k]) for k in range(6)))
    assert out.loss.item() == pytest.approx(sum(terms) / 6, abs=1e-14)
    query_mask = attn_mask.any(-1)
    torch.testing.assert_close(coverage_loss(out.weights, query_mask=query_mask), out.loss)
    assert torch.equal(attention(query, key, attn_mask=attn_mask, need_weights=False).loss, out.loss)
    assert attention(query, key, key_mask=torch.zeros(2, 6, dtype=torch.bool)).loss == 0
    assert coverage_loss(weights[:, :1]) == 0


def test_losses_of_steps_average_to_the_loss_of_all():
    torch.manual_seed(0)
    attention = Coverage(5).double()
    query, memory = torch.randn(2, 4, 5).double(), attention.prepare(torch.randn(2, 6, 5).double())
    whole, state, losses = attention.attend(query, memory)[0], None, []
    for i in range(4):
        out, state = attention.attend(query[:, i : i + 1], memory, state)
        losses.append(out.loss)
    torch.testing.assert_close(torch.stack(losses).mean(), whole.loss)
    torch.testing.assert_close(state.history, whole.weights.sum(1))


def test_the_loss_has_a_gradient():
    torch.manual_seed(0)
    attention = Coverage(5)
    attention(torch.randn(2, 3, 5), torch.randn(2, 7, 5)).loss.backward()
    assert all(p.grad.isfinite().all() for p in attention.parameters())
    assert all(p.grad.abs().sum() > 0 for p in attention.parameters())
    weights = torch.rand(2, 3, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: coverage_loss(w[:, 1:], coverage=w[:, 0]), weights)


def test_a_fertility_of_almost_nothing_stays_finite():
    attention = FertilityCoverage(2)
    attention.fertility_projection.weight.data.fill_(1e4)
    key = torch.tensor([[[-1.0, -1.0], [1.0, 1.0], [0.5, -0.5]]], requires_grad=True)
    out = attention(torch.ones(1, 3, 2), key)
    assert out.weights.isfinite().all()
    out.context.square().sum().backward()
    assert key.grad.isfinite().all()


@pytest.mark.parametrize("number", [0.0, -1.0, math.inf, math.nan])
def test_a_fertility_that_is_not_above_zero_is_refused(number):
    with pytest.raises(ConfigError, match=r"FertilityCoverage\(max_fertility=.*\): .* a finite number above 0"):
        FertilityCoverage(5, max_fertility=number)


def test_of_no_queries_the_loss_is_zero():
    for shape in ((2, 0, 7), (0, 3, 7), (2, 3, 0)):
        assert coverage_loss(torch.zeros(shape)) == 0


def test_weights_of_heads_and_states_of_other_batches_are_refused(unchecked):
    with pytest.raises(ShapeError, match=r"weights has shape \(2, 4, 3, 7\), expected 3 axes \(B, Q, K\)"):
        coverage_loss(torch.rand(2, 4, 3, 7))
    with pytest.raises(ShapeError, match=r"query_mask has shape \(1, 3\), expected \(B, Q\) = \(2, 3\)"):
        coverage_loss(torch.rand(2, 3, 7), query_mask=torch.ones(1, 3, dtype=torch.bool))
    attention = Coverage(5)
    _, state = attention.attend(torch.zeros(1, 1, 5), attention.prepare(torch.zeros(1, 7, 5)))
    with pytest.raises(ShapeError, match=r"state.history has shape \(1, 7\), expected \(B, K\) = \(2, 7\)"):
        attention.attend(torch.zeros(2, 1, 5), attention.prepare(torch.zeros(2, 7, 5)), state)
