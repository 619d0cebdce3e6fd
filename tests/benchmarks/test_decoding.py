"""Who is compared on whose weights, and the figures of decoding."""

from types import SimpleNamespace

import pytest
from benchmarks import decoding

import regard
from regard.config import TransformerConfig
from regard.errors import RegardError
from regard.models.build import build_translator

SIZES = {"hidden_size": 8, "num_heads": 2, "feed_forward_size": 12, "encoder_layers": 2, "decoder_layers": 1}


@pytest.fixture
def models(monkeypatch):
    """Bundles by their folders' names: the preset's form, and the same with sinusoidal positions."""
    made = {}

    def add(name, **changes):
        settings = {"tie_embeddings": "all", "norm_order": "pre", **SIZES, **changes}
        model = build_translator(TransformerConfig(**settings), source_size=23, target_size=23)
        made[name] = SimpleNamespace(model=model)

    monkeypatch.setattr(regard, "load", lambda folder, device: made[folder.name])
    add("rotary", positions="rotary")
    add("sinusoidal")
    return add


def plan(*arguments):
    options = decoding._options(list(arguments))
    matches, left_out = decoding.plan(options, options.rivals.split(","))
    return [(folder.name, names) for folder, _, names in matches], left_out


def test_all_are_compared_on_weights_that_all_have_the_parts_of(models):
    assert plan("sinusoidal") == ([("sinusoidal", ["ctranslate2", "joeynmt"])], {})
    assert plan("rotary", "--rivals", "ctranslate2") == ([("rotary", ["ctranslate2"])], {})


def test_joeynmt_is_left_out_where_it_lacks_a_part_and_that_is_said(models, capsys):
    matches, left_out = plan("rotary")
    assert matches == [("rotary", ["ctranslate2"])]
    assert left_out == {"joeynmt": "the model has positions: rotary, which JoeyNMT 2.3 does not support"}
    printed = capsys.readouterr().err
    assert "JoeyNMT is left out: the model has positions: rotary, which JoeyNMT 2.3 does not support." in printed
    assert "--joeynmt-model DIR, trained with the same settings but model.positions=sinusoidal" in printed
    with pytest.raises(RegardError, match=r"no program is left to compare with: .*add ctranslate2 to --rivals"):
        plan("rotary", "--rivals", "joeynmt")


def test_joeynmt_is_compared_on_a_second_model_of_the_same_shape(models):
    both = [("rotary", ["ctranslate2"]), ("sinusoidal", ["joeynmt"])]
    assert plan("rotary", "--joeynmt-model", "sinusoidal") == (both, {})
    assert plan("rotary", "--joeynmt-model", "sinusoidal", "--rivals", "joeynmt") == (both[1:], {})
    with pytest.raises(RegardError, match="--joeynmt-model is given, but --rivals is 'ctranslate2'"):
        plan("rotary", "--joeynmt-model", "sinusoidal", "--rivals", "ctranslate2")
    with pytest.raises(RegardError, match=r"--joeynmt-model rotary has positions: rotary, which JoeyNMT 2\.3 does not support"):
        plan("rotary", "--joeynmt-model", "rotary")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"encoder_layers": 3}, "encoder_layers 3 in place of 2"),
        ({"num_heads": 4}, "num_heads 4 in place of 2"),
        ({"feed_forward_size": 24}, "2,728 weights in place of 2,116"),
    ],
)
def test_a_second_model_of_another_shape_is_refused(models, changes, named):
    models("other", **changes)
    with pytest.raises(RegardError, match=f"--joeynmt-model has .*{named}.*; expected a model of the same shape"):
        plan("rotary", "--joeynmt-model", "other")


def test_figures_are_medians_of_the_best_size():
    rounds = {
        "regard": [{"1": (10.0, 20.0), "2": (30.0, 40.0)}, {"1": (12.0, 22.0), "2": (34.0, 44.0)}, {"1": (0, 0), "2": (0, 0)}],
        "joeynmt": [{"64": (3.0, 4.0)}],
    }
    found = decoding._figures(rounds)
    assert found["clock"]["sentences_per_second"] == {"regard": 30.0, "joeynmt": 3.0}
    assert found["processor"]["over_joeynmt"] == 10
