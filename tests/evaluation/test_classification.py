import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.evaluation.classification import negative_log_likelihood, score_labels
from regard.evaluation.tables import shorten, table

NAMES = ("bad", "good", "odd")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_one_label_as_torchmetrics_has_it(pairs):
    from torchmetrics.functional import classification as oracle

    predicted, labels = np.array(pairs).T
    scores = score_labels(predicted, labels, list("abcde"))
    given_, right = torch.from_numpy(predicted.copy()), torch.from_numpy(labels.copy())
    settings = {"num_classes": 5, "validate_args": False}
    f1 = oracle.multiclass_f1_score(given_, right, average="macro", **settings)
    assert scores.macro_f1 == pytest.approx(float(f1), abs=1e-6)
    assert scores.accuracy == pytest.approx(float((given_ == right).double().mean()))
    assert torch.equal(torch.tensor(scores.confusion), oracle.multiclass_confusion_matrix(given_, right, **settings))
    precision = oracle.multiclass_precision(given_, right, average="none", **settings)
    assert [one.precision for one in scores.labels] == pytest.approx(precision.tolist(), abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(2, 5))
def test_several_labels_as_torchmetrics_has_them(seed, texts, size):
    from torchmetrics.functional import classification as oracle

    generator = np.random.default_rng(seed)
    predicted, labels = generator.random((2, texts, size)) < 0.4
    scores = score_labels(predicted, labels.astype(np.float32), list("abcde")[:size])
    arguments = (torch.from_numpy(predicted).long(), torch.from_numpy(labels).long())
    micro = oracle.multilabel_f1_score(*arguments, num_labels=size, average="micro")
    # theirs counts labels that nobody has or got as 0 here, though not in the form for one label
    decided = torch.from_numpy((predicted | labels).any(0))
    f1 = oracle.multilabel_f1_score(*arguments, num_labels=size, average="none")[decided]
    assert scores.micro_f1 == pytest.approx(float(micro), abs=1e-6)
    assert scores.macro_f1 == pytest.approx(float(f1.mean()) if len(f1) else 0, abs=1e-6)
    assert scores.accuracy == pytest.approx(float(oracle.multilabel_exact_match(*arguments, num_labels=size)), abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_likelihood_as_torch_has_it(scale):
    logits = scale * torch.randn(17, 5, generator=torch.manual_seed(3), dtype=torch.float64)
    labels = torch.arange(17) % 5
    several = torch.nn.functional.one_hot(labels, 5).double()
    one = torch.nn.functional.cross_entropy(logits, labels)
    many = torch.nn.functional.binary_cross_entropy_with_logits(logits, several, reduction="sum") / 17
    assert negative_log_likelihood(logits.numpy(), labels.numpy()) == pytest.approx(float(one))
    assert negative_log_likelihood(logits.numpy(), several.numpy()) == pytest.approx(float(many))


def test_tables_for_a_terminal():
    scores = score_labels(np.array([0, 0, 1, 1, 0]), np.array([0, 0, 0, 1, 1]), ["bad", "很好", "odd"])
    text = scores.render()
    assert "accuracy   60.00%" in text
    assert "很好        50.0    50.0  50.0      2" in text
    assert "bad                    2     1    0" in text
    several = score_labels(np.eye(3), np.eye(3), NAMES).render()
    assert "exact match  100.00%" in several


def test_many_labels_list_their_confusions():
    names = [f"label {i}" for i in range(20)]
    right = np.arange(20)
    wrong = right.copy()
    wrong[3] = 7
    text = score_labels(wrong, right, names).render()
    assert re.search(r"label 3 +label 7 +1", text)
    assert "no confusions" in score_labels(right, right, names).render()


def test_columns_line_up_and_long_names_are_cut():
    assert shorten("a long name with\na break", 10) == "a long na…"
    assert shorten("short", 10) == "short"
    assert table(["x", "n"], [["a", "1"], ["长长", "22"]]) == "x      n\na      1\n长长  22"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score_labels(np.array([0, 1]), np.array([0]), NAMES), "the numbers of texts are predicted 2, labels 1"),
        (lambda: score_labels(np.array([0]), np.array([3]), NAMES), "labels is int64 (1,), expected labels of each text: numb"),
        (lambda: score_labels(np.array([0.5]), np.array([0]), NAMES), "predicted is float64 (1,), expected labels of each"),
        (lambda: score_labels(np.zeros(0, int), np.zeros(0, int), NAMES), "expected the same number of each, at least one"),
        (lambda: score_labels(np.zeros((2, 2)), np.zeros((2, 2)), NAMES), "or ones and zeros (N,3)"),
        (lambda: score_labels(np.full((1, 3), 0.5), np.zeros((1, 3)), NAMES), "or ones and zeros (N,3)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_said(call, message):
    with pytest.raises(ShapeError, match=re.escape(message)):
        call()
