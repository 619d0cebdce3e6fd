"""The ready-made runs."""

import pytest
import torch

from regard.config import (
    AdditiveConfig,
    DotConfig,
    GeneralConfig,
    LinearConfig,
    LinearPoolingConfig,
    RecurrentClassifierConfig,
    SpacyConfig,
    SumConcatConfig,
)
from regard.errors import ConfigError
from regard.models.build import build_classifier, build_translator
from regard.presets import load_preset, preset_names, preset_text
from regard.tasks.classification.config import ClassificationConfig

TUTORIALS = {
    "tutorial-gru": ("gru", "bahdanau", LinearConfig(), "output"),
    "tutorial-bahdanau": ("lstm", "bahdanau", AdditiveConfig(), "output"),
    "tutorial-luong-dot": ("lstm", "luong", DotConfig(), "concat"),
    "tutorial-luong-general": ("lstm", "luong", GeneralConfig(), "concat"),
    "tutorial-luong-concat": ("lstm", "luong", SumConcatConfig(), "concat"),
}
CLASSIFIERS = {"tutorial-bilstm", "bilstm", "bag", "combined", "transformer", "hierarchical"}
TRANSFORMERS = {"transformer-tiny", "transformer-small", "transformer-base"}


def test_names():
    others = {"bahdanau", "luong", "demo", "transformer-demo", "language-tiny", "gpt2-small", "digits", "tagger"}
    others |= {"pretrained", "tagger-pretrained"}
    assert set(preset_names()) == {*TUTORIALS, *CLASSIFIERS, *TRANSFORMERS, *others}


@pytest.mark.parametrize("name", preset_names())
def test_loads_and_begins_with_what_it_is(name):
    load_preset(name)
    first = preset_text(name).partition("\n")[0]
    assert first.startswith("# ")
    assert first.endswith(".")


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_classifiers_can_be_built(name):
    config = load_preset(name)
    assert isinstance(config, ClassificationConfig)
    model = build_classifier(config.model, vocabulary_size=100, num_labels=3, sentence_ends=(7,))
    assert "pool" in model.sites


def test_the_tutorial_classifier_is_the_tutorials():
    config = load_preset("tutorial-bilstm")
    assert isinstance(config, ClassificationConfig)
    assert config.model == RecurrentClassifierConfig(
        embedding_size=100, cell="lstm", hidden_size=128, bidirectional=True, pooling=LinearPoolingConfig()
    )
    assert config.model.embedding_dropout == config.model.output_dropout == 0.5
    assert config.tokenizer.max_size == 10_000


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_are_the_tutorials(name):
    cell, kind, attention, readout = TUTORIALS[name]
    config = load_preset(name)
    decoder = config.model.decoder
    assert (config.model.encoder.cell, decoder.cell, decoder.kind, decoder.attention) == (cell, cell, kind, attention)
    assert decoder.readout == readout
    assert decoder.embedding_dropout == (0.0 if name == "tutorial-gru" else 0.1)
    assert {config.model.embedding_size, config.model.encoder.hidden_size, decoder.hidden_size} == {256}
    assert not config.model.encoder.bidirectional
    assert config.model.bridge == "copy"
    assert config.tokenizers.source == config.tokenizers.target == SpacyConfig(lowercase=True)
    assert (config.data.source, config.data.target) == ("en", "de")
    assert (config.training.max_epochs, config.training.optimizer) == (10, "adam")
    forcing = config.training.teacher_forcing
    assert (forcing.unit, forcing.start, forcing.end) == ("sentence", 0.5, 0.5)
    assert (config.decoding.beam_size, config.decoding.max_length) == (1, 50)


@pytest.mark.parametrize(
    ("name", "layers", "width", "inner", "heads", "least", "most"),
    [
        ("transformer-tiny", 4, 128, 256, 4, 1_900_000, 2_700_000),  # Wu et al. 2021, with fewer words
        ("transformer-small", 6, 512, 1024, 4, 36_000_000, 38_000_000),  # the same paper
        ("transformer-base", 6, 512, 2048, 8, 60_000_000, 61_000_000),  # Vaswani et al. 2017
    ],
)
def test_the_transformers_are_of_the_published_sizes(name, layers, width, inner, heads, least, most):
    config = load_preset(name)
    assert config.tokenizers.joint
    words = config.tokenizers.source.size
    with torch.device("meta"):
        model = build_translator(config.model, source_size=words, target_size=words)
    assert least < sum(parameter.numel() for parameter in model.parameters()) <= most
    assert model.source_embedding.weight is model.target_embedding.weight is model.output.weight
    assert (len(model.encoder.layers), len(model.decoder.layers), model.encoder.size) == (layers, layers, width)
    layer = model.encoder.layers[0]
    assert (layer.attention.num_heads, layer.feed_forward.inner.out_features) == (heads, inner)


def test_the_classroom_transformer_is_small_and_names_the_attention_that_aligns():
    config = load_preset("transformer-demo")
    with torch.device("meta"):
        model = build_translator(config.model, source_size=1000, target_size=1600)
    assert sum(parameter.numel() for parameter in model.parameters()) < 1_500_000
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (2, 1)
    assert (model.alignment_layer, model.alignment_head) == (0, None)


def test_overrides_from_python():
    config = load_preset("luong", {"data.train": ["deu.txt"], "training.max_epochs": 3, "model.decoder.kind": "bahdanau"})
    assert config.data.train == ("deu.txt",)
    assert config.training.max_epochs == 3
    assert config.model.decoder.kind == "bahdanau"
    with pytest.raises(ConfigError, match=r"unknown setting 'training.epochs'; did you mean 'training.max_epochs'\?"):
        load_preset("luong", {"training.epochs": 3})


def test_unknown_name():
    with pytest.raises(ConfigError, match=r"no preset is named 'bahdanu'; did you mean 'bahdanau'\?"):
        load_preset("bahdanu")


def test_a_preset_is_for_one_task():
    with pytest.raises(ConfigError, match=r"^preset 'luong' is for translation, so its task cannot be 'classification'$"):
        load_preset("luong", {"task": "classification"})
    assert load_preset("luong", {"task": "translation"}) == load_preset("luong")
