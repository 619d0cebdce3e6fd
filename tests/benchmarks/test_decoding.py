"""Who is compared on whose weights, and the figures of decoding."""

from types import SimpleNamespace

import pytest
from benchmarks import decoding

import regard
from regard.config import TransformerConfig
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


def test_figures_are_medians_of_the_best_size():
    rounds = {
        "regard": [{"1": (10.0, 20.0), "2": (30.0, 40.0)}, {"1": (12.0, 22.0), "2": (34.0, 44.0)}, {"1": (0, 0), "2": (0, 0)}],
        "joeynmt": [{"64": (3.0, 4.0)}],
    }
    found = decoding._figures(rounds)
    assert found["clock"]["sentences_per_second"] == {"regard": 30.0, "joeynmt": 3.0}
    assert found["processor"]["over_joeynmt"] == 10
