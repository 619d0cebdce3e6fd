"""Settings of classifiers that contradict each other."""

import pytest

from regard.config.loading import load_config
from regard.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training.score_folds": 1}, "training.score_folds is 1, expected 0 (no estimate) or 2 and more"),
        ({"data.folds": 1}, "data.folds is 1, expected 0 (no folds) or 2 and more"),
        ({"data.folds": 3, "data.fold": 4}, "data.fold is 4, expected from 1 to data.folds (3)"),
        ({"data.folds": 3, "data.dev": ["x"]}, "data.folds holds out a part of data.train, and data.dev names other texts"),
        ({"model.kind": "combined", "model.recurrent.freeze": ["a"]}, "model.recurrent.freeze has no effect"),
        ({"model.kind": "pretrained", "model.encoder.name": "x", "data.vectors": "y"}, "a pretrained encoder has its own"),
        ({"start_from": "x", "data.vectors": "y"}, "a run that starts from 'x' uses the embeddings of that model"),
    ],
)
def test_settings_that_contradict_each_other(settings, message):
    with pytest.raises(ConfigError) as caught:
        load_config({"task": "classification", "data.train": ["t"], **settings})
    assert message in str(caught.value)


def test_usual_settings_do_not():
    load_config({"task": "classification", "data.train": ["t"], "training.score_folds": 2})
    load_config({"task": "classification", "data.train": ["t"], "data.folds": 2, "data.fold": 2})
