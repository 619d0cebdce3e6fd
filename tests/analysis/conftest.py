"""Classifiers of whom everything is known, as `regard.load` would give them."""

from collections.abc import Callable, Sequence

import pytest
from analysis.known_classifier import KnownClassifier

from regard.config import WhitespaceConfig
from regard.task import Bundle
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.data import ClassifierParts
from regard.tasks.classification.predict import Classifier
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import build_tokenizer

WORDS = ["good", "fine", "dull", "bad"]


def make(
    values: Sequence[float] = (2, 1, -1, -2),
    *,
    importance: Sequence[float] = (4, 1, 1, 4),
    names: tuple[str, ...] = ("for", "against"),
    multiple: bool = False,
) -> Classifier:
    """The words good, fine, dull and bad have these values and importances; for the first label where the context is > 0."""
    # more frequent words come first in the vocabulary
    texts = [[word] * (len(WORDS) - place) for place, word in enumerate(WORDS)]
    tokenizer = build_tokenizer([[" ".join(words)] for words in texts], WhitespaceConfig(min_count=1))
    assert tokenizer.encode(" ".join(WORDS)).ids == [4, 5, 6, 7]
    model = KnownClassifier([1, 1, 1, 1, *importance], [0, 0, 0, 0, *values], num_labels=len(names))
    return Classifier(
        Bundle(
            config=ClassificationConfig(),
            model=model,
            parts=ClassifierParts(tokenizer, Labels(names, multiple, (1,) * len(names))),
            custom="model",
        )
    )


@pytest.fixture
def known() -> Callable[..., Classifier]:
    return make
