"""Layers of Transformers: against formulas written out, masks, and what they refuse."""

from dataclasses import replace
from functools import partialmethod

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.attention import MultiHead
from regard.config import TransformerConfig
from regard.errors import ConfigError
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from regard.layers.transformer import DecoderLayer, EncoderLayer, TransformerEncoder, running_layers
from regard.models.transformer.build import build_decoder, build_encoder
from regard.reweight import Sites

SIZE, HEADS, HIDDEN, BATCH, LENGTH = 20, 2, 29, 3, 7
CONFIG = TransformerConfig(hidden_size=SIZE, num_heads=HEADS, feed_forward_size=HIDDEN, layer_dropout=0)
ORDERS = ["pre", "post", "deep"]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def inputs() -> tuple[Tensor, Tensor]:
    x = torch.randn(BATCH, LENGTH, SIZE, dtype=torch.float64)
    return x, torch.arange(LENGTH) < torch.tensor([LENGTH, 4, 1])[:, None]


def by_hand(layer: EncoderLayer, x: Tensor, mask: Tensor, order: str, scale: float) -> Tensor:
    """One sentence at a time and one head at a time, in the order of the paper."""
    rows = []
    for row, real in zip(x, mask, strict=True):
        row = row[real]
        attention, first, second = layer.attention, layer.attention_residual.norm, layer.feed_forward_residual.norm

        def heads(read, attention=attention):
            q, k, v = (f(read) for f in (attention.query_projection, attention.key_projection, attention.value_projection))
            width = SIZE // HEADS
            parts = [slice(h * width, (h + 1) * width) for h in range(HEADS)]
            joined = [torch.softmax(q[:, p] @ k[:, p].T / width**0.5, -1) @ v[:, p] for p in parts]
            return attention.output_projection(torch.cat(joined, -1))

        if order == "pre":
            row = row + heads(first(row))
            row = row + layer.feed_forward(second(row))
        else:
            row = first(scale * row + heads(row))
            row = second(scale * row + layer.feed_forward(row))
        rows.append(row)
    return torch.cat(rows)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("feed_forward", ["relu", "gelu", "swiglu"])
def test_layer_is_its_formula(order, norm, feed_forward):
    encoder = build_encoder(replace(CONFIG, norm_order=order, norm=norm, feed_forward=feed_forward), num_layers=2).double()
    x, mask = inputs()
    layer = encoder.layers[0]
    found, weights = layer(x, mask)
    assert weights is None
    torch.testing.assert_close(found[mask], by_hand(layer, x, mask, order, 4**0.25 if order == "deep" else 1.0))


def test_feed_forward_is_its_formula():
    x = torch.randn(5, SIZE)
    plain = FeedForward(SIZE, hidden_size=HIDDEN, activation=torch.nn.ReLU())
    expected = (x @ plain.inner.weight.T + plain.inner.bias).clamp(min=0) @ plain.outer.weight.T + plain.outer.bias
    torch.testing.assert_close(plain(x), expected)
    gated = GatedFeedForward(SIZE, hidden_size=HIDDEN, activation=torch.nn.SiLU())
    gate = x @ gated.gate.weight.T
    expected = (gate * gate.sigmoid() * (x @ gated.inner.weight.T)) @ gated.outer.weight.T
    torch.testing.assert_close(gated(x), expected)


@pytest.mark.parametrize("order", ORDERS)
def test_weights_of_the_layers_that_are_asked_for(order):
    encoder = build_encoder(replace(CONFIG, norm_order=order), num_layers=3).double()
    x, mask = inputs()
    sites = Sites(("encoder.0", "encoder.2"))
    states = encoder(x, mask, sites)
    assert set(sites.maps) == {"encoder.0", "encoder.2"}
    for weights in sites.maps.values():
        assert weights.shape == (BATCH, HEADS, LENGTH, LENGTH)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert not weights.masked_select(~mask[:, None, None].expand_as(weights)).any()
    torch.testing.assert_close(encoder(x, mask), states)


def test_dropouts_are_where_they_belong():
    config = replace(CONFIG, layer_dropout=0.5, activation_dropout=0.25, attention_dropout=0.125)
    layer = build_encoder(config, num_layers=1).layers[0]
    assert layer.attention_residual.dropout.p == layer.feed_forward_residual.dropout.p == 0.5
    assert layer.feed_forward.dropout.p == 0.25
    assert layer.attention.dropout == 0.125
    x, mask = inputs()
    layer.double()
    assert not torch.equal(layer(x, mask)[0], layer(x, mask)[0])
    layer.eval()
    assert torch.equal(layer(x, mask)[0], layer(x, mask)[0])


def test_deep_stacks_start_with_steady_streams():
    """Sixty layers neither blow the stream up nor lose its gradient."""
    for order in ("pre", "deep"):
        encoder = build_encoder(replace(CONFIG, norm_order=order), num_layers=60)
        x = torch.randn(BATCH, LENGTH, SIZE, requires_grad=True)
        encoder.norm = None
        states = encoder(x)
        assert states.std().item() < 3
        functional.mse_loss(states, torch.randn_like(states)).backward()
        norms = [layer.feed_forward.outer.weight.grad.norm().item() for layer in encoder.layers]
        assert max(norms) < 30 * min(norms)


def test_deepnet_scales():
    torch.manual_seed(1)
    deep = build_encoder(replace(CONFIG, norm_order="deep"), num_layers=2).layers[0]
    torch.manual_seed(1)
    post = build_encoder(replace(CONFIG, norm_order="post"), num_layers=2).layers[0]
    assert deep.attention_residual.scale == pytest.approx(2**0.5)
    gain = 16**-0.25
    for name in ("value_projection", "output_projection"):
        torch.testing.assert_close(getattr(deep.attention, name).weight, gain * getattr(post.attention, name).weight, msg=name)
    torch.testing.assert_close(deep.feed_forward.inner.weight, gain * post.feed_forward.inner.weight)
    assert torch.equal(deep.attention.query_projection.weight, post.attention.query_projection.weight)


def test_sinusoids():
    x = torch.zeros(2, 5, 6, dtype=torch.float64)
    table = SinusoidalPositions(6)(x)[0]
    for t in range(5):
        for pair in range(3):
            angle = torch.tensor(t / 10_000 ** (2 * pair / 6), dtype=torch.float64)
            torch.testing.assert_close(table[t, 2 * pair], angle.sin())
            torch.testing.assert_close(table[t, 2 * pair + 1], angle.cos())
    torch.testing.assert_close(SinusoidalPositions(6)(x[:, :2], 3)[0], table[3:])


def test_learned_positions_end_with_a_shared_one():
    made = LearnedPositions(6, max_length=3)
    table = made(torch.zeros(1, 5, 6))[0]
    assert torch.equal(table[:3], made.weight)
    assert torch.equal(table[3], table[2])
    assert torch.equal(made(torch.zeros(1, 1, 6), 1)[0, 0], made.weight[1])


def test_no_positions():
    x = torch.randn(1, 2, 3)
    assert NoPositions()(x, 5) is x


def test_refusals():
    with pytest.raises(ConfigError, match=r"SinusoidalPositions\(size=5\): .* in pairs, so size must be even"):
        SinusoidalPositions(5)
    with pytest.raises(
        ConfigError, match="TransformerEncoder got no layer; expected at least one layer, all of the same width"
    ):
        TransformerEncoder([])
    one, other = (build_encoder(replace(CONFIG, hidden_size=size), num_layers=1).layers[0] for size in (20, 24))
    with pytest.raises(ConfigError, match="TransformerEncoder got layers of widths 20, 24; expected at least one layer"):
        TransformerEncoder([one, other])
    parts = {"feed_forward": one.feed_forward, "feed_forward_residual": one.feed_forward_residual}
    for sizes, message in (
        ({"key_size": 10}, "query_size=20, key_size=10, value_size=10 and a context of width 20, .*; make these widths equal"),
        ({"output_size": 1}, "query_size=20, key_size=20, value_size=20 and a context of width 1, "),
        ({"value_size": 10}, "query_size=20, key_size=20, value_size=10 and a context of width 20, "),
    ):
        attention = MultiHead(20, num_heads=2, **sizes)
        with pytest.raises(ConfigError, match=f"EncoderLayer: its attention has {message}"):
            EncoderLayer(attention=attention, attention_residual=one.attention_residual, **parts)
    with pytest.raises(ConfigError, match=r"FeedForward\(hidden_size=0\)"):
        FeedForward(SIZE, hidden_size=0, activation=torch.nn.ReLU())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [LENGTH, 90], ids=["few", "many"])
def test_layers_that_share_a_mask_equal_layers_that_resolve_it(order, length):
    """A hook on an attention makes a stack give every layer the mask itself."""
    config = replace(CONFIG, norm_order=order)
    encoder, decoder = build_encoder(config, num_layers=2).double().eval(), build_decoder(config).double().eval()
    x, target = torch.randn(BATCH, length, SIZE, dtype=torch.float64), torch.randn(BATCH, 4, SIZE, dtype=torch.float64)
    mask = torch.arange(length) < torch.tensor([length, 4, 1])[:, None]
    found = []
    for _ in range(2):
        states = encoder(x.masked_fill(~mask[..., None], torch.nan), mask)
        sites = Sites(("cross.1",))
        features = decoder(target, decoder.prepare(states, mask), sites)
        gradients = torch.autograd.grad(features.sum(), [*encoder.parameters(), *decoder.parameters()])
        found.append((states[mask], features, sites.maps["cross.1"], gradients))
        encoder.layers[0].attention.register_forward_hook(lambda *arguments: None)
        decoder.layers[1].cross_attention.register_forward_hook(lambda *arguments: None)
    torch.testing.assert_close(found[0][:3], found[1][:3])
    assert all(gradient.isfinite().all() for gradient in found[0][3])


def trained_once(config, **running):
    """Output and gradients of an encoder and a decoder with dropout, from the same random numbers."""
    torch.manual_seed(0)
    encoder = build_encoder(config, num_layers=2, decoder_layers=4).double().train()
    decoder = build_decoder(config).double().train()
    model, (x, mask) = torch.nn.ModuleList([encoder, decoder]), inputs()
    with running_layers(model, **running):
        torch.manual_seed(1)
        out = decoder(x, decoder.prepare(encoder(x, mask), mask))
        out.square().sum().backward()
    return model, [out.detach(), *(parameter.grad for parameter in model.parameters())]


def test_layers_that_are_computed_again_give_the_same_bits():
    config = replace(CONFIG, layer_dropout=0.3, attention_dropout=0.0)
    _, kept = trained_once(config, compiled=False, recomputed=False)
    calls = []
    handle = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: calls.append(module) if isinstance(module, EncoderLayer | DecoderLayer) else None
    )
    model, again = trained_once(config, compiled=False, recomputed=True)
    handle.remove()
    assert len(calls) >= 12  # each of the six layers twice
    assert all(torch.equal(one, other) for one, other in zip(kept, again, strict=True))
    assert not any(layer.recomputed for stack in model for layer in stack.layers)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # PyTorch's compiler reads it
def test_compiled_layers_agree(monkeypatch):
    # Without code for the processor, whose generation takes a minute: the graphs are what could go wrong.
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(torch.nn.Module.compile, backend="aot_eager"))
    _, plain = trained_once(CONFIG, compiled=False, recomputed=False)
    model, compiled = trained_once(CONFIG, compiled=True, recomputed=False)
    torch.testing.assert_close(compiled, plain)
    assert all(layer._compiled_call_impl is None for stack in model for layer in stack.layers)


def test_a_model_without_layers_can_neither_compile_nor_recompute_them():
    with (
        pytest.raises(ConfigError, match="are for layers of Transformers, and Linear has none"),
        running_layers(torch.nn.Linear(2, 2), compiled=True, recomputed=False),
    ):
        pass
