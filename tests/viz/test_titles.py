"""Titles of every kind of picture: whole, whatever their letters, and in the right order."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from regard.evaluation.calibration import ReliabilityBin
from regard.records import record
from regard.viz import confusion, curves, grid, heatmap, reliability, words

WIDE = "WORLD MAP WITH MANY WIDE WORDS " * 5
ONE = [[1.0]]
MARK = "\u200e"


def classified(texts=("good",), label="positive", **fields):
    return record([[1.0 / len(texts)] * len(texts)], list(texts), [label], probabilities={label: 0.78, "other": 0.22}, **fields)


DRAWN = {
    "heatmap": lambda title: heatmap.draw(record(ONE, ["a"], ["b"]), title=title),
    "grid": lambda title: grid.draw(record({"cross.0": [ONE]}, ["a"], ["b"]), family="cross", title=title),
    "words": lambda title: words.draw(classified(), title=title),
    "no words": lambda title: heatmap.draw(record(np.zeros((0, 1)), ["a"], []), title=title),
    "confusion": lambda title: confusion.draw(np.array([[1]]), ["a"], title=title),
    "reliability": lambda title: reliability.draw([ReliabilityBin(0.0, 1.0, 1, 0.5, 0.5)], title=title),
    "curves": lambda title: curves.draw({"run": {"step": [1], "train_nll": [2.0]}}, title=title),
}


def drawn_texts(figure):
    """The texts of a figure with their boxes."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    return [(text, text.get_window_extent(canvas.get_renderer())) for text in texts if text.get_text()]


def is_whole(box, figure):
    return min(box.x0, box.y0) >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


@pytest.mark.parametrize("kind", DRAWN)
def test_a_long_title_in_wide_letters_is_whole(kind):
    figure = DRAWN[kind](WIDE)
    boxes = drawn_texts(figure)
    assert all(is_whole(box, figure) for _, box in boxes)
    title = [(text, box) for text, box in boxes if "WIDE" in text.get_text() or "WORDS" in text.get_text()]
    assert WIDE.strip() in " ".join(text.get_text() for text, _ in title)
    below = min(box.y0 for _, box in title)
    assert all(axes.bbox.y1 < below for axes in figure.axes if axes.bbox.height < figure.bbox.height)


@pytest.mark.parametrize("kind", DRAWN)
def test_an_endless_title_is_broken(kind):
    figure = DRAWN[kind]("M" * 180)
    assert all(is_whole(box, figure) for _, box in drawn_texts(figure))


@pytest.mark.parametrize("size", [1, 8, 40, 120])
def test_long_words_stay_on_their_colours(size):
    long = "Rindfleischetikettierungsüberwachungsaufgabe"
    figure = words.draw(classified([long] * size))
    chips = {
        (round(box.x0), round(box.y0)): box for box in (chip.get_window_extent() for chip in figure.findobj(FancyBboxPatch))
    }
    named = [box for text, box in drawn_texts(figure) if text.get_text() == long]
    assert len(named) == len(chips) == size
    for box in named:
        assert any(c.x0 <= box.x0 and box.x1 <= c.x1 and c.y0 <= box.y0 + box.height / 2 <= c.y1 for c in chips.values())


def test_a_label_from_right_to_left_stands_before_its_probability():
    figure = words.draw(classified(["طويل"], "جيد"))
    title = next(text.get_text() for text in figure.texts if "0.78" in text.get_text())
    assert title == f"{MARK}جيد{MARK} · 0.78"
    figure = reliability.draw([ReliabilityBin(0.0, 1.0, 1, 0.5, 0.5)], title="جيد")
    assert any(text.get_text().startswith(f"{MARK}جيد{MARK}: expected") for text in figure.texts)


def test_a_title_of_ones_own_runs_as_its_letters_do():
    figure = heatmap.draw(record(ONE, ["a"], ["b"]), title="مرحبا!")
    assert "مرحبا!" in [text.get_text() for text in figure.texts]


def test_a_title_from_right_to_left_begins_at_the_right():
    figure = words.draw(classified(), title="مرحبا " * 30)
    lines = [(text, box) for text, box in drawn_texts(figure) if "مرحبا" in text.get_text()]
    assert len(lines) > 2
    assert {text.get_horizontalalignment() for text, _ in lines} == {"right"}
    assert all(is_whole(box, figure) for _, box in lines)
