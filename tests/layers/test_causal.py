"""Causal layers: the encoder's own, under a mask; step by step and all at once."""

import pytest
import torch

from regard.attention import Rotary
from regard.errors import ConfigError
from regard.layers.causal import CausalLayer
from regard.layers.transformer import DecoderRequest, EncoderLayer
from regard.layers.transformer_build import Blueprint, build_causal

PRINT = Blueprint(size=20, num_heads=2, feed_forward_size=29, build_positions=Rotary)


def parts(*, causal: bool) -> dict[str, torch.nn.Module]:
    return {
        "attention": PRINT.build_attention(causal=causal),
        "attention_residual": PRINT.build_residual(1),
        "feed_forward": PRINT.build_feed_forward(),
        "feed_forward_residual": PRINT.build_residual(1),
    }


@pytest.mark.parametrize("order", ["pre", "post", "deep"])
def test_steps_equal_all_at_once(order):
    torch.manual_seed(0)
    decoder = build_causal(Blueprint(**{**vars(PRINT), "order": order}), num_layers=3).double().eval()
    x = torch.randn(3, 7, 20, dtype=torch.float64)
    states, maps = decoder(x, record=(0, 2))
    assert set(maps) == {0, 2}
    caches, found = None, []
    for position in range(7):
        state, weights, caches = decoder.step(x[:, position : position + 1], (), caches, DecoderRequest(own=(2,)))
        found.append(state)
        torch.testing.assert_close(weights.own[2][:, :, 0], maps[2][:, :, position, : position + 1])
    torch.testing.assert_close(torch.cat(found, 1), states, rtol=1e-10, atol=1e-12)


def test_it_is_the_encoders_layer_on_what_was_read():
    layer = CausalLayer(**parts(causal=True)).double().eval()
    x = torch.randn(2, 5, 20, dtype=torch.float64)
    whole, _ = layer(x)
    assert isinstance(layer, EncoderLayer)
    for size in (1, 3):
        torch.testing.assert_close(layer(x[:, :size])[0], whole[:, :size])


def test_an_attention_that_sees_later_words_is_refused():
    with pytest.raises(ConfigError, match="CausalLayer: its attention sees later words; build it with causal=True"):
        CausalLayer(**parts(causal=False))
