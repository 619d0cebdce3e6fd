"""Models from configurations and presets, as they are built from Python."""

import pytest
import torch
from torch import nn

import regard
from regard.attention import Additive, Dot, MultiHead
from regard.errors import ConfigError
from regard.models.build import build_classifier, build_language_model, build_translator


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


def test_an_attention_that_does_not_fit_is_refused_at_once(unchecked: None) -> None:
    sizes = {"source_size": 9, "target_size": 9}
    fitting = Additive(256, key_size=512)
    assert build_translator("luong", **sizes, attention=fitting).decoder.attention is fitting
    assert fitting.training
    message = r"attention \(Additive\) has key_size=10, but the encoder's states are 512 wide: build it with key_size=512"
    with pytest.raises(ConfigError, match=message):
        build_translator("luong", **sizes, attention=Additive(256, key_size=10))
    for wrong, remedy in (
        (MultiHead(128, 8, key_size=512), r"has query_size=128, but the decoder's states are 256 wide: build it with size=256"),
        (MultiHead(256, 8, key_size=512, value_size=9), r"has value_size=9, .* 512 wide: build it with value_size=512"),
        (
            Dot(256),
            r"has key_size=256, .* 512 wide: .* or use a mechanism for two widths, such as General",
        ),
    ):
        with pytest.raises(ConfigError, match=remedy):
            build_translator("luong", **sizes, attention=wrong)
    with pytest.raises(ConfigError, match=r"attention is of type Linear, expected an object of a class in regard.attention"):
        build_translator("luong", **sizes, attention=nn.Linear(3, 3))
    with pytest.raises(ConfigError, match=r"attention is the class Additive, expected an object .* Additive\(256, key_size"):
        build_translator("luong", **sizes, attention=Additive)
    with pytest.raises(ConfigError, match=r"pooling is Linear\(.*expected an object of a regard.attention.Pooling class"):
        build_classifier("bilstm", vocabulary_size=9, num_labels=2, pooling=nn.Linear(3, 3))


def test_vocabularies_without_the_special_symbols_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"build_translator\(target_size=3\): target_size must be 4 or more"):
        build_translator("luong", source_size=9, target_size=3)
    with pytest.raises(ConfigError, match=r"build_classifier\(embedding_size=-1\): embedding_size must be 0 or more"):
        build_classifier("bilstm", vocabulary_size=9, num_labels=2, embedding_size=-1)
    with pytest.raises(ConfigError, match=r"build_classifier\(num_labels=0\): num_labels must be 1 or more"):
        build_classifier("bilstm", vocabulary_size=9, num_labels=0)
    with pytest.raises(ConfigError, match=r"build_language_model\(vocabulary_size=0\): vocabulary_size must be 4 or more"):
        build_language_model("language-tiny", vocabulary_size=0)
