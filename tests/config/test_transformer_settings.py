"""Settings of Transformers that must fit each other."""

import pytest
import torch

from regard.attention import LinearScaling, Llama3Scaling, NTKScaling, YaRNScaling
from regard.config import RecurrentConfig, RotaryConfig, TransformerConfig
from regard.config.loading import dump_config, load_config, override_layer
from regard.errors import ConfigError
from regard.inference import pack
from regard.models.build import build_translator

TRANSFORMER = {"kind": "transformer"}


def test_kinds_of_models():
    assert isinstance(load_config({"model": TRANSFORMER}).model, TransformerConfig)
    assert isinstance(load_config({}).model, RecurrentConfig)
    config = load_config({"model": {**TRANSFORMER, "encoder_layers": 7}})
    assert load_config(dump_config(config)) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, r"model.num_heads is 3, expected a divisor of model.hidden_size \(256\)"),
        (
            {"hidden_size": 12, "positions": "rotary"},
            "which rotates pairs of features, but a head has 3 features",
        ),
        (
            {"hidden_size": 15, "num_heads": 5},
            "which needs an even model.hidden_size; it is 15",
        ),
        ({"decoder_layers": 0}, "model.decoder_layers is 0, expected from 1 to 1000"),
        ({"activation_dropout": 1}, "model.activation_dropout is 1, expected 0 or more and less than 1"),
        ({"tie_embeddings": "all"}, "model.tie_embeddings is 'all', which needs one vocabulary"),
        ({"bridge": "copy"}, "model of kind 'transformer' has no setting 'bridge'; it belongs to kind: recurrent"),
        ({"norm_order": "before"}, "model.norm_order is 'before', expected one of: pre, post, deep"),
        ({"rotary": {"base": 1}}, "model.rotary.base is 1, expected more than 1"),
        ({"rotary": {"scaling_factor": 0.5}}, "model.rotary.scaling_factor is 0.5, expected 1 or more"),
        ({"rotary": {"original_length": 0}}, "model.rotary.original_length is 0, expected 1 or more"),
    ],
)
def test_conflicts(settings, message):
    with pytest.raises(ConfigError, match=message):
        load_config({"model": {**TRANSFORMER, **settings}})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, r"model.num_heads is 3, expected a divisor of model.embedding_size \(128\)"),
        (
            {"embedding_size": 12, "positions": "rotary"},
            "a head has 3 features: make model.embedding_size / model.num_heads even",
        ),
        ({"embedding_size": 15, "num_heads": 5}, "which needs an even model.embedding_size; it is 15"),
    ],
)
def test_conflicts_of_a_classifier(settings, message):
    with pytest.raises(ConfigError, match=message):
        load_config({"task": "classification", "model": {**TRANSFORMER, **settings}})


HEADS = {"qk_norm": True, "talking_heads": True, "output_gate": True, "added_keys": "zero"}


def test_a_transformer_with_every_option_of_its_heads_decodes_likewise_in_steps():
    """From settings; the packed form of the search must not be one that leaves an option out."""
    given = {f"model.{place}.{name}": value for place in ("heads", "cross_attention.heads") for name, value in HEADS.items()}
    given |= {"model.kind": "transformer", "model.hidden_size": 8, "model.num_heads": 2, "model.feed_forward_size": 8}
    given |= {"model.positions": "rotary", "model.rotary.layout": "half", "model.rotary.scaling": "yarn"}
    given |= {"model.rotary.scaling_factor": 4, "model.rotary.original_length": 8, "model.cross_attention.head_size": 6}
    config = load_config(override_layer(given)).model
    assert load_config(dump_config(load_config(override_layer(given)))).model == config
    torch.manual_seed(0)
    model = build_translator(config, source_size=11, target_size=11).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    source, target = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 5, 9], [2, 4, 4]])
    wanted = model.logits(model.decode(target, model.encode(source, source != 0))[0])
    packed = pack(model, 2)
    state = packed.encode(source, source != 0)
    for i in range(3):
        logits, _, state = packed.step(target[:, i : i + 1], state)
        torch.testing.assert_close(logits[:, 0], wanted[:, i], rtol=0, atol=1e-10)
    own, across = model.decoder.layers[0].self_attention, model.decoder.layers[0].cross_attention
    assert [type(each).__name__ for each in own.modifiers] == ["QKNorm", "TalkingHeads", "OutputGate", "AddedKeys"]
    assert (own.positions.layout, own.positions.scaling) == ("half", YaRNScaling(4.0, 8))
    assert (across.head_size, len(across.modifiers)) == (6, 4)


@pytest.mark.parametrize(
    ("settings", "scaling"),
    [
        ({"scaling": "linear", "scaling_factor": 2.0}, LinearScaling(2.0)),
        ({"scaling": "ntk", "scaling_factor": 2.0}, NTKScaling(2.0)),
        ({"scaling": "llama3", "scaling_factor": 2.0, "original_length": 64}, Llama3Scaling(2.0, 64)),
        ({}, None),
    ],
)
def test_scalings_of_rotary_positions(settings, scaling):
    assert RotaryConfig(**settings).build().scaling == scaling
