"""The Transformer whose training is measured against others: the same shape for all."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from benchmarks import marian, transformer
from benchmarks.joeynmt_transformer import transformer_config, write_vocabulary

from regard.config import TransformerConfig
from regard.config.loading import dump_config, load_config
from regard.models.build import build_translator
from regard.presets import load_preset

ALL = transformer.NAMES[1:]


def shared(model, rivals=ALL):
    return replace(model, **transformer.shared_shape(model, rivals))


def test_joeynmt_is_given_the_shape_of_the_preset(tmp_path):
    model = shared(load_preset("transformer-tiny").model, ["joeynmt"])
    vocabulary = write_vocabulary(tmp_path / "pieces", 9)
    made = transformer_config(model, data={"train": Path("a")}, vocabulary=vocabulary, model_dir=Path("m"), updates=25)
    assert yaml.safe_load(yaml.safe_dump(made)) == made
    parts = made["model"]["encoder"], made["model"]["decoder"]
    assert [part["num_layers"] for part in parts] == [model.encoder_layers, model.decoder_layers]
    assert {part["ff_size"] for part in parts} == {model.feed_forward_size}
    assert {part["dropout"] for part in parts} == {model.layer_dropout}
    assert {part["layer_norm"] for part in parts} == {model.norm_order}
    assert {part["activation"] for part in parts} == {model.feed_forward}
    assert made["training"]["validation_freq"] % made["training"]["logging_freq"] == 0
    assert vocabulary.read_text().split()[4:] == ["p4", "p5", "p6", "p7", "p8"]


def test_the_run_that_is_measured_is_the_preset_in_the_shape_that_all_share(tmp_path):
    data = {"train": tmp_path / "train", "dev": tmp_path / "val"}
    config = transformer.preset_run(data, tmp_path, 17, ALL)
    assert load_config(dump_config(config)) == config
    assert config.training.max_steps == 17
    assert (config.training.optimizer, config.training.betas) == ("adam", (0.9, 0.98))
    preset = load_preset("transformer-tiny")
    assert (config.tokenizers, config.training.batch_tokens) == (preset.tokenizers, preset.training.batch_tokens)
    assert config.model == shared(preset.model)
    assert (config.model.positions, config.model.norm_order) == ("sinusoidal", "post")


def test_what_not_all_have_is_replaced_for_all():
    model = TransformerConfig(norm_order="pre", positions="rotary", norm="rms", feed_forward="swiglu", feed_forward_size=256)
    alone, both = shared(model, ["joeynmt"]), shared(model, ["joeynmt", "marian-float32"])
    assert (alone.norm_order, both.norm_order) == ("pre", "post")
    assert (both.positions, both.norm, both.tie_embeddings) == ("sinusoidal", "layer", "all")
    assert (both.feed_forward, both.feed_forward_size) == ("relu", 384)  # 2 · 384 = 3 · 256
    assert shared(replace(model, feed_forward="gelu")).feed_forward == "gelu"
    assert transformer.shared_shape(both, ALL) == {}


@pytest.mark.parametrize("forward", ["relu", "gelu"])
def test_marian_trains_as_many_weights(forward):
    pytest.importorskip("transformers", reason="MarianMT is not installed: pip install '.[bench]'")
    sizes = {"hidden_size": 8, "num_heads": 2, "feed_forward_size": 12, "encoder_layers": 2, "decoder_layers": 1}
    model = shared(TransformerConfig(feed_forward=forward, positions="rotary", **sizes))
    ours = build_translator(model, source_size=23, target_size=23)
    assert marian.count_trained(marian.build_marian(model, 23)) == marian.count_trained(ours)
