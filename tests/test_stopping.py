"""A computation that nobody waits for ends at its next step."""

from contextvars import copy_context

import pytest
from bundle.conftest import make as make_translator
from bundle.test_classifiers import make as make_classifier
from tasks.language.test_language_model import make as make_language_model

import regard
from regard.bundle import save_bundle
from regard.decoding import Sampling
from regard.stopping import Stopped, is_wanted

TEXTS = ["she kissed him .", "a cat"]
MAKERS = {"deu": make_translator, "reviews": make_classifier, "stories": make_language_model}


@pytest.fixture(scope="module")
def predictors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, make in MAKERS.items():
        save_bundle(folder / name, make())
    return {name: regard.load(folder / name, device="cpu") for name in MAKERS}


CALLS = {
    "greedy": lambda own: own["deu"].translate(TEXTS, beam_size=1, min_length=20),
    "beam": lambda own: own["deu"].translate(TEXTS, beam_size=3, min_length=20),
    "constraints": lambda own: own["deu"].translate(TEXTS, beam_size=3, constraints=[["er"], []], max_length=30),
    "sampling": lambda own: own["deu"].translate(TEXTS, sampling=Sampling(count=2), min_length=20),
    "force": lambda own: own["deu"].force(TEXTS, TEXTS),
    "classify": lambda own: own["reviews"].classify(TEXTS),
    "generate": lambda own: own["stories"].generate(TEXTS, max_length=20),
    "score": lambda own: own["stories"].score(TEXTS),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_stops_at_the_next_step(predictors, name):
    last, steps = 1 if name in ("force", "classify", "score") else 3, []

    def run():
        is_wanted.set(lambda: steps.append(0) or len(steps) < last)
        with pytest.raises(Stopped):
            CALLS[name](predictors)

    copy_context().run(run)
    assert len(steps) == last
