"""Models and results as a notebook shows them: short, and with everything foreign escaped."""

import re

import numpy as np
import pytest
from tasks.classification.test_classifier import make as make_classifier
from tasks.conftest import make as make_translator
from tasks.language.test_language_model import make as make_language_bundle

from regard.tasks.classification.results import Classification
from regard.tasks.language.predict import LanguageModel
from regard.tasks.language.results import Generation
from regard.tasks.translation.results import Translation

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">'
RESULTS = [
    Translation(EVIL, EVIL, -1.25, -2.5, False, [Translation(EVIL, EVIL, -2.0, -3.0)]),
    Classification(EVIL, EVIL, 0.75, (EVIL,), {EVIL: 0.75, "other": 0.25}, 7),
    Generation(EVIL, EVIL, -3.0, np.zeros(5), False),
]


def models():
    return [make_translator(), make_classifier(), LanguageModel(make_language_bundle())]


def test_results_are_one_short_line():
    assert repr(Translation("hi .", "hallo .", -1.25, -2.5)) == "Translation('hi .' → 'hallo .', log p -2.50)"
    long = Translation("word " * 100, "\x1b[2J" * 100, -1.25, -2.5, False, [RESULTS[0]])
    assert len(repr(long)) < 500
    assert "\x1b" not in repr(long)
    assert repr(long).endswith("log p -2.50, unfinished, 1 alternative)")
    assert repr(RESULTS[1]).endswith("75.0%, the first 7 tokens)")
    assert repr(RESULTS[2]).endswith("5 tokens, log p -3.00, unfinished)")


def test_models_are_one_short_line():
    for model, name in zip(models(), ("Translator(", "Classifier(", "LanguageModel("), strict=True):
        assert repr(model).startswith(name)
        assert "parameters, on cpu" in repr(model)
        assert len(repr(model)) < 300


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_html_escapes_everything_foreign(result):
    shown = result._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert shown.count("<div") == shown.count("</div>")


def test_html_of_models_is_a_small_table():
    for model in models():
        shown = model._repr_html_()
        assert len(re.findall("<tr>", shown)) in (3, 4)
        assert "parameters" in shown
