"""Settings of Transformers that must fit each other."""

import pytest

from regard.config import RecurrentConfig, TransformerConfig
from regard.config.loading import dump_config, load_config
from regard.errors import ConfigError

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
            "which rotates pairs of features, and a head has 3",
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
    ],
)
def test_misfits(settings, message):
    with pytest.raises(ConfigError, match=message):
        load_config({"model": {**TRANSFORMER, **settings}})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, r"model.num_heads is 3, expected a divisor of model.embedding_size \(128\)"),
        ({"embedding_size": 12, "positions": "rotary"}, "a head has 3: make model.embedding_size / model.num_heads even"),
        ({"embedding_size": 15, "num_heads": 5}, "which needs an even model.embedding_size; it is 15"),
    ],
)
def test_misfits_of_a_classifier(settings, message):
    with pytest.raises(ConfigError, match=message):
        load_config({"task": "classification", "model": {**TRANSFORMER, **settings}})
