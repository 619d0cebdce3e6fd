"""What always giving the same label would reach, and the warning that a model does."""

import numpy as np
import pytest

from regard.evaluation.baseline import Share, most_frequent, warn_of_one_answer

NAMES = ("bad", "good", "so-so")


def test_the_most_frequent_label_or_set_of_labels():
    assert most_frequent(np.array([1, 0, 1, 2]), NAMES) == Share("good", 0.5, 0.25)
    several = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 1]])
    assert most_frequent(several, NAMES) == Share("bad, good", 0.5, 0.25)
    assert most_frequent(np.zeros((2, 3)), NAMES) == Share("nothing", 1.0, 0.0)


def warn(predicted, majority, *, second=None, texts=1000, balanced=False):
    return warn_of_one_answer(
        Share("bad", predicted),
        Share("bad", majority, 1 - majority if second is None else second),
        texts=texts,
        balanced=balanced,
        name="dev texts",
    )


def test_unbalanced_labels_want_weights():
    assert warn(1.0, 0.9) == (
        "warning: the model answers 'bad' for 100.0% of the 1,000 dev texts, whatever they say; "
        "the labels are unbalanced: train with training.class_weights balanced"
    )


@pytest.mark.parametrize(
    "settings", [{"majority": 0.54}, {"majority": 0.54, "second": 0.45}, {"majority": 0.9, "balanced": True}]
)
def test_where_weights_would_not_help_something_else_is_advised(settings):
    shown = warn(0.995, **settings)
    assert "class_weights" not in shown
    assert "train longer (training.max_epochs)" in shown


@pytest.mark.parametrize(
    ("predicted", "majority", "texts"),
    [
        (0.9, 0.5, 1000),  # a bad classifier that gives different answers
        (0.995, 0.995, 1000),  # the texts are so
        (1.0, 1.0, 1000),
        (1.0, 0.6, 5),  # too few to say
    ],
)
def test_no_warning(predicted, majority, texts):
    assert warn(predicted, majority, texts=texts) == ""
