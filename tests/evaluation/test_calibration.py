import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.evaluation.calibration import calibration, fit_temperature, softmax
from regard.evaluation.classification import negative_log_likelihood


def test_error_worked_by_hand():
    # two bins: (0, .5] holds 0.5 (right); (.5, 1] holds 0.9 (right) and 0.7 (wrong): confidence 0.8, accuracy 0.5
    probabilities = np.array([[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.7, 0.2, 0.1]])
    found = calibration(probabilities, np.array([0, 1, 2]), num_bins=2)
    assert found.error == pytest.approx(1 / 3 * 0.5 + 2 / 3 * 0.3)
    low, high = found.bins
    assert (low.low, low.high, low.count, low.confidence, low.accuracy) == pytest.approx((0, 0.5, 1, 0.5, 1))
    assert (high.low, high.high, high.count, high.confidence, high.accuracy) == pytest.approx((0.5, 1, 2, 0.8, 0.5))


def test_each_of_several_labels_is_a_decision():
    # said yes at 0.8 (right), no at 0.4 (wrong): confidences 0.8 and 0.6
    found = calibration(np.array([[0.8, 0.4]]), np.array([[1, 1]]), num_bins=10)
    assert found.error == pytest.approx(0.5 * 0.2 + 0.5 * 0.6)
    assert [one.count for one in found.bins] == [0, 0, 0, 0, 0, 1, 0, 1, 0, 0]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 60))
def test_error_as_torchmetrics_has_it(seed, texts):
    from torchmetrics.functional.classification import multiclass_calibration_error

    generator = np.random.default_rng(seed)
    probabilities = softmax(3 * generator.normal(size=(texts, 4)))
    labels = generator.integers(4, size=texts)
    theirs = multiclass_calibration_error(torch.from_numpy(probabilities), torch.from_numpy(labels), num_classes=4, n_bins=15)
    assert calibration(probabilities, labels).error == pytest.approx(float(theirs), abs=1e-6)


def test_temperature_worked_by_hand():
    # Logits (a, 0) of which 3 in 4 are right: σ(a/T) = 3/4, so T = a / log 3; smoothing moves it by 1/(n+2).
    n, a = 40_000, 5.0
    labels = (np.arange(n) % 4 == 0).astype(np.int64)
    logits = np.tile([a, 0.0], (n, 1))
    assert fit_temperature(logits, labels) == pytest.approx(a / math.log(3), rel=1e-3)
    one, four = 1 / 6, 5 / 6  # n = 4
    smoothed = (3 * four + one) / 4
    expected = a / math.log(smoothed / (1 - smoothed))
    assert fit_temperature(logits[:4], labels[:4]) == pytest.approx(expected, rel=1e-6)


def test_temperature_of_several_labels():
    n, a = 40_000, 5.0
    labels = (np.arange(n) % 4 != 0).astype(np.float32).reshape(-1, 2)
    assert fit_temperature(np.full((n // 2, 2), a), labels) == pytest.approx(a / math.log(3), rel=1e-3)


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 10_000), st.floats(0.2, 5))
def test_temperature_is_found_again(seed, true):
    generator = np.random.default_rng(seed)
    honest = 2 * generator.normal(size=(20_000, 3))
    labels = (generator.random((20_000, 1)) > softmax(honest).cumsum(1)).sum(1)
    found = fit_temperature(true * honest + 100, labels)
    assert found == pytest.approx(true, rel=0.05)
    best = negative_log_likelihood(true * honest / found, labels)
    for other in (0.9 * found, 1.1 * found):
        assert best < negative_log_likelihood(true * honest / other, labels)


@pytest.mark.parametrize(
    ("logits", "labels", "low", "high"),
    [
        (np.eye(2) * 4, np.array([0, 1]), 0.5, 10),  # all right: not 0
        (np.eye(2) * 4, np.array([1, 0]), 19.9, 20.1),  # all wrong: as unsure as it gets
        (np.zeros((3, 2)), np.array([0, 1, 0]), 1, 1),  # nothing to go by
        (np.zeros((0, 2)), np.zeros(0, np.int64), 1, 1),
        (np.ones((2, 1)), np.zeros(2, np.int64), 1, 1),
        (np.eye(2) * 1e30, np.array([0, 1]), 19.9, 20.1),
    ],
)
def test_temperature_of_few_texts_is_sane(logits, labels, low, high):
    assert low <= fit_temperature(logits, labels) <= high


def test_temperature_keeps_the_predictions_and_mends_the_error():
    generator = np.random.default_rng(1)
    honest = 2 * generator.normal(size=(5000, 3))
    labels = (generator.random((5000, 1)) > softmax(honest).cumsum(1)).sum(1)
    scale = fit_temperature(5 * honest, labels)
    assert calibration(softmax(5 * honest / scale), labels).error < 0.03 < calibration(softmax(5 * honest), labels).error


def test_the_diagram_for_a_terminal():
    text = calibration(
        np.array([[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.7, 0.2, 0.1]]), np.array([0, 1, 2]), num_bins=2
    ).render()
    assert "expected calibration error   0.3667" in text
    assert "50–100%               2  80.0%   50.0%" in text
    assert "██████████······│···" in text  # half right, 0.8 sure


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_said():
    for call in (fit_temperature, calibration):
        with pytest.raises(ShapeError, match=r"labels is int64 \(1,\), expected labels of each text: numbers from 0 to 1"):
            call(np.ones((1, 2)), np.array([2]))
