"""What belongs to the Transformer alone; the battery in tests/contracts holds it to the contract of every model."""

from dataclasses import replace

import pytest
import torch

from regard.attention import Additive, Coverage, MultiHead
from regard.config import TransformerConfig
from regard.errors import ConfigError
from regard.layers.transformer import DecoderLayer
from regard.models.build import build_translator
from regard.models.transformer.translator import TransformerTranslator

WORDS, BATCH, SOURCE, TARGET = 29, 3, 7, 5
CONFIG = TransformerConfig(
    hidden_size=20, num_heads=2, feed_forward_size=23, encoder_layers=2, decoder_layers=3, embedding_dropout=0, layer_dropout=0
)


def build(config: TransformerConfig = CONFIG) -> TransformerTranslator:
    torch.manual_seed(0)
    return build_translator(config, source_size=WORDS, target_size=WORDS).double().eval()


def texts() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randint(4, WORDS, (BATCH, size), generator=draw) for size in (SOURCE, TARGET))
    return source, torch.ones_like(source, dtype=torch.bool), target


def test_tying():
    for tie, shared in (("none", 3), ("target", 2), ("all", 1)):
        model = build(replace(CONFIG, tie_embeddings=tie))
        weights = (model.source_embedding.weight, model.target_embedding.weight, model.output.weight)
        assert len({id(weight) for weight in weights}) == shared
    with pytest.raises(ConfigError, match="tie_embeddings: all needs one vocabulary"):
        build_translator(replace(CONFIG, tie_embeddings="all"), source_size=WORDS, target_size=WORDS + 1)


def test_embeddings_enter_with_variance_one():
    seen = []
    model = build(replace(CONFIG, hidden_size=200, positions="rotary", tie_embeddings="none"))
    model.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    source, mask, _ = texts()
    model.encode(source, mask)
    assert seen[0].std().item() == pytest.approx(1, rel=0.1)


def test_cross_is_the_mean_of_one_layers_heads():
    model = build()
    source, mask, target = texts()
    state = model.encode(source, mask)
    _, attention = model.decode(target, state, record=("cross", "cross.1", "cross.2"))
    torch.testing.assert_close(attention["cross"], attention["cross.1"].mean(1))
    model.alignment_layer = 2
    _, other = model.decode(target, state, record=("cross",))
    assert set(other) == {"cross"}
    torch.testing.assert_close(other["cross"], attention["cross.2"].mean(1))


def test_cross_may_be_one_head():
    model = build()
    source, mask, target = texts()
    model.alignment_head = 1
    _, attention = model.decode(target, model.encode(source, mask), record=("cross", "cross.1"))
    torch.testing.assert_close(attention["cross"], attention["cross.1"][:, 1])


@pytest.mark.parametrize("heads", [2, 1])
def test_norms_are_those_of_what_the_heads_take(heads):
    """Σ_h α_h (W_v,h x + b_v,h) W_o,h as vectors, one for each query and key, and their lengths."""
    model = build()
    attention = model.decoder.layers[1].cross_attention
    if heads == 1:  # shared keys and values
        attention = model.decoder.layers[1].cross_attention = MultiHead(20, num_heads=2, num_kv_heads=1).double()
    torch.nn.init.normal_(attention.value_projection.bias)
    torch.nn.init.normal_(attention.output_projection.bias)
    source, mask, target = texts()
    mask[0, 5:] = False
    read = []
    attention.value_projection.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    state = model.encode(source, mask)
    _, maps = model.decode(target, state, record=("norm.1", "cross.1"))
    values = attention.value_projection(read[0]).unflatten(-1, (heads, 10)).repeat_interleave(2 // heads, dim=2)
    out = attention.output_projection.weight.T.unflatten(0, (2, 10))
    vectors = [[values[:, :, head] @ out[head]] for head in range(2)]
    taken = sum(maps["cross.1"][:, head, :, :, None] * vectors[head][0][:, None] for head in range(2))
    norms = taken.norm(dim=-1)
    assert not norms[0, :, 5:].any()
    torch.testing.assert_close(maps["norm.1"], norms / norms.sum(-1, keepdim=True))
    assert not torch.allclose(maps["norm.1"], maps["cross.1"].mean(1), atol=1e-2)


@torch.no_grad()
def test_select_moves_nothing_of_the_source():
    model = build()
    source, mask, target = texts()
    state = model.encode(source, mask)
    _, _, state = model.step(target[:, :1], state)
    moved = state.select(torch.zeros(BATCH, 4, dtype=torch.int64))
    assert moved.memories is state.memories
    assert moved.cache.pool is state.cache.pool
    _, _, after = model.step(target[:, :4], moved)
    assert after.memories is state.memories
    assert after.length == 2


def test_any_mechanism_without_a_state_attends_across():
    """A user's own cross attention in a layer: additive, with one head."""
    model = build()
    for layer in model.decoder.layers:
        layer.cross_attention = Additive(20, key_size=20).double()
    source, mask, target = texts()
    features, attention = model.decode(target, model.encode(source, mask), record=("cross", "cross.0", "cross.1"))
    assert attention["cross.0"].shape == (BATCH, TARGET, SOURCE)
    torch.testing.assert_close(attention["cross"], attention["cross.1"])
    logits, _, _ = model.step(target[:, :1], model.encode(source, mask))
    torch.testing.assert_close(logits[:, 0], model.logits(features)[:, 0])


def test_refusals():
    model, layer = build(), build().decoder.layers[0]
    parts = {
        name: getattr(layer, name) for name in ("self_residual", "cross_residual", "feed_forward", "feed_forward_residual")
    }
    with pytest.raises(ConfigError, match="its self-attention sees later words; build it with causal=True"):
        DecoderLayer(self_attention=MultiHead(20, num_heads=2), cross_attention=layer.cross_attention, **parts)
    with pytest.raises(ConfigError, match="DecoderLayer: a Coverage remembers earlier queries"):
        DecoderLayer(self_attention=layer.self_attention, cross_attention=Coverage(20, key_size=20), **parts)
    with pytest.raises(ConfigError, match="a Transformer has an attention in every layer"):
        build_translator(CONFIG, source_size=WORDS, target_size=WORDS, attention=layer.cross_attention)
    names = ("source_embedding", "target_embedding", "source_positions", "target_positions", "encoder", "decoder", "output")
    pieces = {name: getattr(model, name) for name in names}
    with pytest.raises(ConfigError, match=r"alignment_layer=3\): the decoder has 3 layers, expected from 0 to 2"):
        TransformerTranslator(**pieces, alignment_layer=3)
    with pytest.raises(
        ConfigError, match=r"alignment_head=2\): layer 1 attends to the source with 2 heads, expected from 0 to 1"
    ):
        TransformerTranslator(**pieces, alignment_head=2)
    with pytest.raises(ConfigError, match=r"all parts must have the same width, got source_embedding 20, .* output 21"):
        TransformerTranslator(**{**pieces, "output": torch.nn.Linear(21, WORDS)})
