"""Weights in JoeyNMT's format, of all that can be converted, and vocabularies spelt by numbers."""

import pytest
import torch
from benchmarks.conversion import JOEYNMT, to_joeynmt
from export.models import build

from regard.config import TransformerConfig
from regard.errors import RegardError
from regard.inference.ctranslate2 import check_convertible, lacks


def test_joeynmt_is_refused_what_it_has_not(tmp_path):
    model = build(positions="rotary", norm="rms", feed_forward="swiglu", tie_embeddings="none", output_bias=True)
    with pytest.raises(
        RegardError, match=r"JoeyNMT 2\.3 does not support; it supports norm: layer, norm_order: pre or post, "
    ) as refused:
        to_joeynmt(model, tmp_path)
    had = ("norm: rms", "feed_forward: swiglu", "positions: rotary", "embeddings that are not all tied", "output_bias: true")
    assert all(part in str(refused.value) for part in had)
    assert lacks(TransformerConfig(norm_order="deep"), JOEYNMT) == "norm_order: deep"  # to be trained; weights go over


@pytest.mark.parametrize("order", ["pre", "post", "deep"])
def test_joeynmt_gets_every_weight_and_has_the_unknown_symbol_before_padding(tmp_path, order):
    model = build(norm_order=order)
    to_joeynmt(check_convertible(model), tmp_path)
    state = torch.load(tmp_path / "best.ckpt")["model_state"]
    table = model.output.weight.detach()
    assert torch.equal(state["trg_embed.lut.weight"], torch.cat([table[[1, 0]], table[2:]]))
    assert torch.equal(
        state["decoder.layers.0.src_trg_att.k_layer.weight"], model.decoder.layers[0].cross_attention.key_projection.weight
    )
    tied = ("src_embed.lut.weight", "trg_embed.lut.weight")
    trained = [tensor for name, tensor in state.items() if not name.endswith(".pe") and name not in tied]
    assert sum(map(torch.numel, trained)) == sum(map(torch.numel, model.parameters()))
    assert ("decoder.layer_norm.weight" in state) == (order == "pre")
