"""The layer hands the kernels what its scores mean: subclasses with another formula get theirs, with weights and without.

The kernels are replaced by the plain formula, so that this needs no GPU.
"""

import pytest
import torch

from regard.attention import Additive, AttentionOutput, Dot, General, LocalMonotonic, ScaledDot, WeightNormAdditive
from regard.attention.normalizers.softmax import masked_softmax
from regard.attention.scores import additive
from regard.attention.scores.additive import plain_additive_scores


class OwnAdditive(Additive):
    """Additive scores that fall with the key's number."""

    def scores(self, query, memory):
        return super().scores(query, memory) - torch.arange(memory.key.shape[1])


class OwnGeneral(General):
    """The same with a product."""

    def scores(self, query, memory):
        return super().scores(query, memory) - torch.arange(memory.key.shape[1])


@pytest.fixture
def fused(monkeypatch):
    """Every call that the kernels may serve, counted."""
    calls = []

    def attend(query, key, value, score_weight, mask, *, need_weights):
        calls.append(need_weights)
        weights = masked_softmax(plain_additive_scores(query, key, score_weight), mask)
        return weights @ value, weights if need_weights else None

    monkeypatch.setattr(additive, "fused_additive_attention", attend)
    monkeypatch.setattr(additive, "is_fused", lambda *tensors: True)
    return calls


BUILDS = {
    "additive": (lambda: Additive(5, key_size=7), True),
    "weight_norm": (lambda: WeightNormAdditive(5, key_size=7), True),
    "local": (lambda: LocalMonotonic(5, key_size=7, window=2, scorer=WeightNormAdditive(5, key_size=7)), False),
    "own_additive": (lambda: OwnAdditive(5, key_size=7), False),
    "own_general": (lambda: OwnGeneral(5, key_size=7), False),
    "dot": (lambda: Dot(7), False),
    "scaled_dot": (lambda: ScaledDot(7), False),
}


@pytest.mark.parametrize(("build", "served"), BUILDS.values(), ids=BUILDS)
def test_fused_forms_give_what_the_scores_say(build, served, fused):
    torch.manual_seed(0)
    attention = build().double()
    query, key = torch.randn(2, 3, attention.query_size).double(), torch.randn(2, 11, 7).double()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additive, "is_fused", lambda *tensors: False)
        plain: AttentionOutput = attention(query, key)
    with_weights, without = attention(query, key), attention(query, key, need_weights=False)
    torch.testing.assert_close(with_weights.weights, plain.weights)
    torch.testing.assert_close(with_weights.context, plain.context)
    torch.testing.assert_close(without.context, plain.context)
    assert fused == ([True, False] if served else [])
