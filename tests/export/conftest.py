"""Browsers for the tests of pages: each test runs in Chromium and, among the slow ones, in Firefox."""

import pytest
from browser import CHROMIUM, Browser
from export.page_models import RECURRENT, TRANSFORMER, make_classifier, make_language_model, make_translator
from firefox import FIREFOX, Firefox

import regard
from regard.export.page import write_page


@pytest.fixture(scope="module", params=["chromium", pytest.param("firefox", marks=pytest.mark.slow)])
def browser(request):
    """A running browser without a network."""
    if not (CHROMIUM if request.param == "chromium" else FIREFOX):
        pytest.skip(f"no {request.param} is installed")
    running = Browser() if request.param == "chromium" else Firefox()
    yield running
    running.close()


@pytest.fixture(scope="module")
def chromium():
    """A running Chromium, for what can be set in it alone: sizes of the window, dark mode, the accessibility tree."""
    if not CHROMIUM:
        pytest.skip("no chromium or chrome is installed")
    running = Browser()
    yield running
    running.close()


SENTENCES = ["The old man gives the child a red apple.", "We have not seen the dog today."]
REVIEWS = ["an honest film , but the ending is dull .", "dull", "a film that is longer than a line of the page , " * 6]
BEGINNINGS = ["The old man", "We have not"]
SIGMOID = {"kind": "linear", "normalizer": {"kind": "sigmoid"}}
BUILDS = {
    "recurrent": lambda folder: make_translator(folder),
    "other": lambda folder: make_translator(folder, RECURRENT | {"embedding_size": 14}),
    "transformer": lambda folder: make_translator(folder, TRANSFORMER, noise=0.8),
    "subwords": lambda folder: make_translator(folder, TRANSFORMER, "bpe"),
    "reviews": lambda folder: make_classifier(folder, "words"),
    "mean": lambda folder: make_classifier(folder, "words", pooling={"kind": "mean"}),
    "sigmoid": lambda folder: make_classifier(folder, "words", pooling=SIGMOID, multiple=True),
    "language": lambda folder: make_language_model(folder, noise=0.8),
}


class Made:
    """Small models and their pages, each made when it is first asked for."""

    def __init__(self, folder):
        self.folder = folder
        self._loaded = {}

    def run(self, name):
        """Return the folder of a model."""
        run = self.folder / name
        return run if run.exists() else BUILDS[name](run)

    def load(self, name):
        """Return a model, loaded."""
        if name not in self._loaded:
            self._loaded[name] = regard.load(self.run(name), device="cpu")
        return self._loaded[name]

    def page(self, *names):
        """Return the page of one or several models."""
        path = self.folder / f"{'-'.join(names)}.html"
        if not path.exists():
            examples = {"reviews": REVIEWS, "language": BEGINNINGS}.get(names[0], SENTENCES)
            write_page([self.run(name) for name in names], path, examples=examples)
        return path


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Small models and their pages, by name."""
    return Made(tmp_path_factory.mktemp("made"))
