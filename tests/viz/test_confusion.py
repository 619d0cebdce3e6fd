from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from viz.special import boxes_of, texts

from regard.evaluation.classification import most_confused
from regard.viz import confusion


def made(size, seed=0):
    counts = np.random.default_rng(seed).poisson(2, (size, size))
    np.fill_diagonal(counts, 100)
    return counts, [f"label {n} of a kind"[: 8 + n % 9] + str(n) for n in range(size)]


def test_counts_names_accuracy_and_what_is_confused_are_said(tmp_path):
    confusion.draw(np.array([[40, 10], [0, 50]]), ["bad", "good"], tmp_path / "c.svg")
    shown = texts(tmp_path / "c.svg")
    assert [text for text in shown if text in ("40", "10", "0", "50")] == ["40", "10", "0", "50", "0"]  # and the bar's zero
    assert shown.count("bad") == shown.count("good") == 2
    assert {"true", "predicted", "Accuracy 90.0%, 100 texts", "10 × bad → good (20% of bad)"} <= set(shown)


def test_colours_are_shares_of_the_row(tmp_path):
    path = tmp_path / "c.png"
    confusion.draw(np.array([[1, 0], [0, 1000]]), ["a", "b"], path)
    image = Image.open(path).convert("RGB")
    dark = [count for count, colour in image.getcolors(1 << 20) if colour == (8, 48, 107)]
    assert dark[0] > 2 * (0.6 * 150) ** 2 * 0.9  # both cells of the diagonal, the row of one text too


@pytest.mark.parametrize("size", [1, 14, 30, 60])
def test_nothing_is_cut_off_and_every_name_is_there(size):
    counts, names = made(size)
    figure = confusion.draw(counts, names)
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == names
    boxes_of(figure, [*axes.get_yticklabels(), *figure.texts], slack=1)
    boxes = boxes_of(figure, axes.get_xticklabels(), slack=1)
    assert all(a.x1 <= b.x0 + 0.35 * (a.x1 - a.x0) for a, b in pairwise(boxes))
    assert bool(axes.texts) == (size <= 30)
    assert max(figure.get_size_inches()) < 25


def test_hundreds_of_labels_are_a_map_and_a_list():
    counts, names = made(300)
    figure = confusion.draw(counts, names)
    assert figure.axes[0].get_yticklabels() == []
    assert max(figure.get_size_inches()) < 25
    assert sum("→" in text.get_text() and "×" in text.get_text() for text in figure.texts) == 10
    said = "Labels are not written, because there are more than 250."
    assert said in [text.get_text() for text in figure.texts]
    assert said not in [text.get_text() for text in confusion.draw(*made(250)).texts]


def test_the_most_confused_pairs_are_ranked():
    counts = np.array([[9, 3, 0], [5, 9, 0], [1, 0, 9]])
    assert most_confused(counts) == [(1, 0), (0, 1), (2, 0)]
    assert most_confused(counts, 1) == [(1, 0)]
    assert most_confused(np.eye(3, dtype=int)) == []
    assert counts[0, 0] == 9


def test_no_errors_and_no_texts_are_said(tmp_path):
    confusion.draw(np.eye(2, dtype=int), ["a", "b"], tmp_path / "right.svg")
    assert "No text got a wrong label." in texts(tmp_path / "right.svg")
    confusion.draw(np.zeros((2, 2), int), ["a", "b"], tmp_path / "none.svg", title="None")
    assert {"There are no texts.", "None"} <= set(texts(tmp_path / "none.svg"))
