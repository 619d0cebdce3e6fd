"""Configurations as a notebook shows them: what differs from the defaults, and no page of dataclasses."""

import dataclasses

import pytest

import regard
from regard.config import InverseSquareRootConfig, TransformerConfig, WhitespaceConfig
from regard.config.loading import load_config, parse_layer
from regard.config.settings import changed_settings
from regard.presets import load_preset, preset_names
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.language.config import LanguageConfig
from regard.tasks.translation.config import TranslationConfig, TranslationTrainingConfig


def test_a_run_shows_what_differs_from_the_defaults():
    config = load_preset("luong", {"data.train": ["deu.txt"], "data.source": "en", "out": "runs/deu"})
    shown = repr(config)
    assert shown.startswith("# TranslationConfig: settings that differ from the defaults\ntask: translation\n")
    assert "\ndata:\n  train:\n  - deu.txt\n  source: en\n" in shown
    assert "    kind: luong\n" in shown
    assert "alignments" not in shown
    assert len(shown.splitlines()) < 60


def test_settings_cannot_be_changed_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TranslationConfig().task = "language"
    with pytest.raises(TypeError, match="positional"):
        WhitespaceConfig(True)


@pytest.mark.parametrize("cls", [TranslationConfig, ClassificationConfig, LanguageConfig])
def test_defaults_are_one_line(cls):
    assert repr(cls()) == f"# {cls.__name__}: settings that differ from the defaults\ntask: {cls().task}"


@pytest.mark.parametrize("name", preset_names())
def test_what_is_shown_can_be_loaded_again(name):
    config = load_preset(name)
    assert load_config(parse_layer(repr(config), "a.yaml")) == config
    assert load_config({"task": config.task} | changed_settings(config)) == config


def test_a_part_is_one_line():
    assert repr(TranslationTrainingConfig()) == "TranslationTrainingConfig()"
    part = TranslationTrainingConfig(max_epochs=5, schedule=InverseSquareRootConfig(warmup_steps=100))
    assert repr(part) == "TranslationTrainingConfig(max_epochs=5, schedule=InverseSquareRootConfig(warmup_steps=100))"
    assert repr(WhitespaceConfig(min_count=2)) == "WhitespaceConfig(min_count=2)"
    assert repr(TransformerConfig(num_heads=2)) == "TransformerConfig(num_heads=2)"


def test_a_config_of_ones_own_has_a_short_repr_too():
    config = regard.load_config({"task": "classification", "data": {"text": "review\x1b"}})
    assert "\x1b" not in repr(config)
