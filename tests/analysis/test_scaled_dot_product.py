"""Attention of models that call `scaled_dot_product_attention`: exact weights, and an output that does not change."""

import math

import pytest
import torch
from torch import nn

import regard
from regard.analysis.observation import Selection
from regard.analysis.products import scaled_dot_product
from regard.errors import ConfigError, RequestError


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
    weights = scaled_dot_product((query, key, value), options, nn.Identity()).weights(Selection(), "")
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


def test_large_queries_in_half_precision():
    """The products of queries and keys are beyond the largest number of float16 before they are scaled, and not after it."""
    query = torch.full((1, 1, 3, 64), 40.0, dtype=torch.float16)
    query[0, 0, 0] *= -1
    weights = scaled_dot_product((query, query, query), {}, nn.Identity()).weights(Selection(), "")
    assert weights.tolist() == [[[[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]]]


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
    assert record.sites == ("decoder.0", "decoder.1")  # no word's weights look ahead
    assert record.target_words == ("a", "b", "c", "d", "e")
    assert record.target_is_read
    assert torch.equal(model(x), expected)
    assert not model[0]._forward_hooks
    assert not model[0]._forward_pre_hooks
    assert len(caught.calls) == 2


class Softmax(Layer):
    """Attention by a softmax and a product, with dropout, a sink that is cut off, and heads in the axis of the batch."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.maps(x).chunk(3, -1))
        scores = query @ key.mT / 2
        if self.way == "sink":
            weights = nn.functional.pad(scores, (0, 1)).softmax(-1)[..., :-1]
            found = torch.matmul(nn.functional.dropout(weights, 0.5), value)
        elif self.way == "einsum":
            weights = nn.functional.softmax(scores, -1, dtype=torch.float32).type(x.dtype)
            found = torch.einsum("bhij,bhjd->bhid", nn.functional.dropout(weights, 0.5), value)
        else:
            weights = nn.Softmax(-1)(scores)
            found = torch.bmm(weights.view(-1, 5, 5), value.flatten(0, 1)).unflatten(0, (-1, 2))
        self.weights = weights.detach()
        return x + found.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("way", ["sink", "einsum", "bmm"])
def test_a_softmax_and_a_product(way):
    torch.manual_seed(0)
    model, x = nn.Sequential(Softmax(way), nn.Softmax(-1)), torch.randn(3, 5, 8)
    torch.manual_seed(1)
    expected = model(x)
    torch.manual_seed(1)
    with regard.capture(model) as caught:
        assert torch.equal(model(x), expected)
    assert list(caught) == ["0"]  # the softmax at the end is multiplied by nothing
    assert len(caught.calls) == 1
    assert torch.equal(caught["0"], model[0].weights)


class OwnSoftmax(nn.Module):
    def __init__(self, softmax) -> None:
        super().__init__()
        self.softmax = softmax

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.softmax(x) @ x


@pytest.mark.parametrize(
    ("over_last", "over_other"),
    [
        (lambda x: x.softmax(2), lambda x: x.softmax(1)),
        (lambda x: torch.softmax(x, dim=-1), lambda x: torch.softmax(x, dim=-2)),
        (lambda x: torch.softmax(x, axis=-1), lambda x: torch.softmax(x, axis=0)),
        (lambda x: nn.functional.softmax(input=x, dim=2), lambda x: nn.functional.softmax(input=x, dim=1)),
        (nn.Softmax(-1), nn.Softmax(1)),
    ],
)
def test_only_a_softmax_over_the_last_axis_is_attention(over_last, over_other):
    x = torch.randn(3, 5, 5)
    model = nn.Sequential(OwnSoftmax(over_other), OwnSoftmax(over_last))
    with regard.capture(model) as caught:
        model(x)
    assert [call.name.partition(".")[0] for call in caught.calls] == ["1"]
    torch.testing.assert_close(caught.calls[0].weights, model[0](x).softmax(-1))


def test_only_what_is_asked_for():
    torch.manual_seed(0)
    model, x = nn.Sequential(Layer(), nn.Sequential(Layer(), Layer())), torch.randn(3, 5, 8)
    with regard.capture(model) as whole:
        model(x)
    with regard.capture(model, names=["1.*"], heads=[1], device="cpu") as caught:
        model(x)
    assert list(whole) == ["0", "1.0", "1.1"]
    assert list(caught) == ["1.0", "1.1"]
    assert torch.equal(caught["1.1"], whole["1.1"][:, 1:])


@pytest.mark.parametrize("mask", [None, HIDDEN[:, :5].clone(), FLOATS[:, :5].clone()[None, None].expand(3, 2, 5, 5)])
def test_rows_that_are_asked_for(mask):
    torch.manual_seed(0)
    query, key = torch.randn(3, 4, 5, 8).double(), torch.randn(3, 2, 5, 8).double()
    mask = mask.repeat(1, 2, 1, 1) if mask is not None and mask.ndim > 2 else mask
    options = {"attn_mask": mask, "is_causal": mask is None, "enable_gqa": True}
    product = scaled_dot_product((query, key, key), options, nn.Identity())
    whole = product.weights(Selection(), "")
    torch.testing.assert_close(product.weights(Selection(rows=[3, -5]), ""), whole[:, :, [3, 0]])
    torch.testing.assert_close(product.weights(Selection(rows=[4], heads=[3, 1]), ""), whole[:, [3, 1], 4:])


def test_rows_are_computed_in_chunks(monkeypatch):
    torch.manual_seed(0)
    model, x = Layer(), torch.randn(3, 5, 8)
    with regard.capture(model) as whole:
        model(x)
    monkeypatch.setattr("regard.analysis.observation._CHUNK", 60)  # two rows of 3 sentences, 2 heads and 5 keys
    for options in ({}, {"device": "cpu"}):
        with regard.capture(model, **options) as caught:
            model(x)
        torch.testing.assert_close(caught[""], whole[""])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": "layer"}, r"names is the string 'layer', expected a list of names: \['layer'\]"),
        ({"names": ["encoder"]}, "no module has the name 'encoder'"),
        ({"heads": [-1]}, r"heads is \[-1\], expected a list of whole numbers of 0 or more"),
        ({"heads": [2]}, "heads contains 2, but '0' has 2 heads: choose from 0 to 1"),
        ({"rows": []}, r"rows is \[\], expected a list of whole numbers, such as \[0, 5\] or \[-1\]"),
        ({"rows": [0, 5]}, r"rows is \[0, 5\], but '0' has 5 queries: choose from -5 to 4, or leave the module out"),
    ],
)
def test_refusals(options, message):
    model = nn.Sequential(Layer())
    with pytest.raises((RequestError, ConfigError), match=message), regard.capture(model, **options):
        model(torch.randn(3, 5, 8))


def test_hooks_are_removed_after_an_exception():
    model = nn.Sequential(Layer())
    with pytest.raises(RuntimeError), regard.capture(model):
        model(torch.randn(3, 5, 9))
    assert not model[0]._forward_hooks
    assert not model[0]._forward_pre_hooks
