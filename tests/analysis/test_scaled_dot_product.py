"""Attention of models that call `scaled_dot_product_attention`: exact weights, and an output that does not change."""

import math

import pytest
import torch
from torch import nn

import regard
from regard.analysis.scaled_dot_product import scaled_dot_product_weights


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


FLOATS = torch.arange(35.0, dtype=torch.float64).view(5, 7) / 9
HIDDEN = FLOATS > 1
CASES = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"is_causal": True},
    "boolean mask": {"attn_mask": HIDDEN},
    "added mask": {"attn_mask": FLOATS},
    "grouped heads": {"enable_gqa": True},
    "grouped heads, causal, scale": {"enable_gqa": True, "is_causal": True, "scale": 1.5},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_weights_give_the_context(options):
    """Weights times values are what PyTorch returns; rows sum to one, or to zero with nothing to attend to."""
    torch.manual_seed(0)
    groups = 2 if options.get("enable_gqa") else 6
    query, key, value = draw(3, 6, 5, 4), draw(3, groups, 7, 4), draw(3, groups, 7, 11)
    weights = scaled_dot_product_weights(query, key, **options)
    assert weights.shape == (3, 6, 5, 7)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, **options)
    torch.testing.assert_close(weights @ value.repeat_interleave(6 // groups, 1), expected)
    some = HIDDEN.any(-1) if options.get("attn_mask") is HIDDEN else torch.ones(5)
    torch.testing.assert_close(weights.sum(-1), some.double().expand(3, 6, 5))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maps, self.drop = nn.Linear(8, 24), 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.maps(x).chunk(3, -1))
        found = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=self.drop, is_causal=True)
        return x + found.transpose(1, 2).flatten(2)


def test_a_model_of_plain_calls():
    torch.manual_seed(0)
    model, x = nn.Sequential(Layer(), nn.GELU(), Layer()), torch.randn(3, 5, 8)
    expected = model(x)
    with regard.capture(model) as caught:
        found = model(x)
    assert torch.equal(found, expected)
    assert list(caught) == ["0", "2"]
    query, key, _ = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in model[0].maps(x).chunk(3, -1))
    scores = (query @ key.mT / math.sqrt(4)).masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf)
    torch.testing.assert_close(caught["0"], scores.softmax(-1))
    assert not caught["0"].requires_grad
    record = caught.to_record(["a", "b", "c", "d", "e"], batch=1)
    assert record.sites == ("encoder.0", "encoder.1")
    assert torch.equal(model(x), expected)
    assert not model[0]._forward_hooks
    assert not model[0]._forward_pre_hooks
    assert len(caught.calls) == 2


def test_hooks_are_removed_after_an_exception():
    model = nn.Sequential(Layer())
    with pytest.raises(RuntimeError), regard.capture(model):
        model(torch.randn(3, 5, 9))
    assert not model[0]._forward_hooks
    assert not model[0]._forward_pre_hooks
