"""Causal layers: the encoder's own, under a mask; step by step and all at once."""

from dataclasses import replace

import pytest
import torch

from regard.config import LanguageModelConfig
from regard.errors import ConfigError
from regard.layers.transformer import CausalLayer, EncoderLayer
from regard.models.transformer.build import build_causal, build_feed_forward, build_residual, build_self_attention
from regard.reweight import Sites

CONFIG = LanguageModelConfig(hidden_size=20, num_heads=2, feed_forward_size=29, num_layers=3, layer_dropout=0)


def parts(*, causal: bool) -> dict[str, torch.nn.Module]:
    return {
        "attention": build_self_attention(CONFIG, causal=causal),
        "attention_residual": build_residual(CONFIG, 1),
        "feed_forward": build_feed_forward(CONFIG),
        "feed_forward_residual": build_residual(CONFIG, 1),
    }


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("order", ["pre", "post", "deep"])
def test_steps_equal_all_at_once(order, gradients):
    torch.manual_seed(0)
    decoder = build_causal(replace(CONFIG, norm_order=order)).double().eval()
    x = torch.randn(3, 7, 20, dtype=torch.float64)
    sites = Sites(("decoder.0", "decoder.2"))
    states = decoder(x, (), sites)
    assert set(sites.maps) == {"decoder.0", "decoder.2"}
    cache, found = None, []
    with torch.set_grad_enabled(gradients):
        for position in range(7):
            step = Sites(("decoder.2",))
            state, cache = decoder.step(x[:, position : position + 1], (), cache, step)
            found.append(state)
            expected = sites.maps["decoder.2"][:, :, position, : position + 1]
            torch.testing.assert_close(step.maps["decoder.2"][:, :, 0], expected)
    torch.testing.assert_close(torch.cat(found, 1), states, rtol=1e-10, atol=1e-12)


def test_it_is_the_encoders_layer_on_what_was_read():
    layer = CausalLayer(**parts(causal=True)).double().eval()
    x = torch.randn(2, 5, 20, dtype=torch.float64)
    whole, _ = layer(x)
    assert isinstance(layer, EncoderLayer)
    for size in (1, 3):
        torch.testing.assert_close(layer(x[:, :size])[0], whole[:, :size])


def test_an_attention_that_sees_later_words_is_refused():
    with pytest.raises(ConfigError, match="CausalLayer: its self-attention sees later words; build it with causal=True"):
        CausalLayer(**parts(causal=False))
