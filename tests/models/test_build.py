"""Models from configurations and presets, as they are built from Python."""

import pytest
import torch

import regard
from regard.errors import ConfigError


@pytest.mark.parametrize("name", ["luong", "transformer-tiny"])
def test_a_translator_of_a_preset(name):
    model = regard.build_translator(name, source_size=50, target_size=50).eval()
    logits = model(torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[2, 4, 5], [2, 6, 7]]))
    assert logits.shape[:2] == (2, 3)
    assert logits.shape[2] >= 50
    config = regard.load_preset(name)
    for one in (config, config.model):
        assert str(regard.build_translator(one, source_size=50, target_size=50)) == str(model.train())


def test_a_language_model_and_a_classifier_of_a_preset():
    language = regard.build_language_model("language-tiny", vocabulary_size=50).eval()
    assert language(torch.tensor([[2, 5, 6]])).shape[:2] == (1, 3)
    tokens = torch.tensor([[5, 6, 7]])
    classifier = regard.build_classifier("bilstm", vocabulary_size=50, num_labels=3).eval()
    assert classifier(tokens, tokens > 0).logits.shape == (1, 3)


def test_a_preset_of_another_task():
    with pytest.raises(ConfigError, match="the preset 'bag' is for classification, expected one for translation"):
        regard.build_translator("bag", source_size=5, target_size=5)
    with pytest.raises(ConfigError, match="the configuration is for language, expected one for classification"):
        regard.build_classifier(regard.load_preset("language-tiny"), vocabulary_size=5, num_labels=2)
    with pytest.raises(ConfigError, match="no preset is named 'loung'; did you mean 'luong'"):
        regard.build_translator("loung", source_size=5, target_size=5)


def test_a_configuration_of_another_model():
    bag, tiny = (regard.load_preset(name).model for name in ("bag", "transformer-tiny"))
    with pytest.raises(ConfigError, match=r"build_translator: config is a BagClassifierConfig, expected .* of a translator$"):
        regard.build_translator(bag, source_size=5, target_size=5)
    with pytest.raises(ConfigError, match=r"build_classifier: config is a TransformerConfig, expected .* of a classifier$"):
        regard.build_classifier(tiny, vocabulary_size=5, num_labels=2)
    with pytest.raises(ConfigError, match=r"build_language_model: config is a Tr.*Config, expected .* of a language model$"):
        regard.build_language_model(tiny, vocabulary_size=5)
