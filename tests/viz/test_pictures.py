"""What every kind of picture keeps to: texts are whole, the same numbers give the same bytes, names stay text."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch
from viz.special import texts

from regard.errors import RequestError
from regard.evaluation.calibration import ReliabilityBin
from regard.records import record
from regard.viz import confusion, curves, grid, heatmap, reliability, words

WIDE = "WORLD MAP WITH MANY WIDE WORDS " * 5
HOSTILE = ["$x^2$", "<b>&amp;", "\x1b[0m", "\ud800", "", "a\nb", "$", "W" * 300, "\\frac"]
ONE = [[1.0]]
MARK = "\u200e"


def classified(texts=("good",), label="positive", **fields):
    return record([[1.0 / len(texts)] * len(texts)], list(texts), [label], probabilities={label: 0.78, "other": 0.22}, **fields)


def draw_curves(*arguments, names, **options):
    return curves.draw({names[0]: {"step": [1], "train_nll": [2.0]}}, *arguments, **options)


DRAWN = {
    "heatmap": lambda *to, names, **options: heatmap.draw(record(np.eye(len(names)), names, names), *to, **options),
    "grid": lambda *to, names, **options: grid.draw(
        record({"cross.0": [np.eye(len(names))]}, names, names), *to, family="cross", **options
    ),
    "words": lambda *to, names, **options: words.draw(classified(names), *to, **options),
    "no words": lambda *to, names, **options: heatmap.draw(record(np.zeros((0, 1)), ["a"], []), *to, **options),
    "confusion": lambda *to, names, **options: confusion.draw(np.eye(len(names), dtype=int), names, *to, **options),
    "reliability": lambda *to, names, **options: reliability.draw([ReliabilityBin(0.0, 1.0, 1, 0.5, 0.5)], *to, **options),
    "curves": draw_curves,
}
NAMED = ["heatmap", "grid", "words", "confusion"]


def drawn_texts(figure):
    """The texts of a figure with their boxes."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    return [(text, text.get_window_extent(canvas.get_renderer())) for text in shown if text.get_text()]


def is_whole(box, figure):
    return min(box.x0, box.y0) >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("title", [WIDE, "M" * 180], ids=["wide letters", "one word"])
def test_a_long_title_is_whole(kind, title):
    figure = DRAWN[kind](names=["a"], title=title)
    boxes = drawn_texts(figure)
    assert all(is_whole(box, figure) for _, box in boxes)
    titles = [(text, box) for text, box in boxes if "WIDE" in text.get_text() or "WORDS" in text.get_text()]
    if title == WIDE:
        assert title.strip() in " ".join(text.get_text() for text, _ in titles)
        below = min(box.y0 for _, box in titles)
        assert all(axes.bbox.y1 < below for axes in figure.axes if axes.bbox.height < figure.bbox.height)


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_numbers_give_the_same_bytes(kind, ending, tmp_path):
    for name in ("one", "two"):
        DRAWN[kind](tmp_path / f"{name}.{ending}", names=["a", "b"], title="Title")
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


@pytest.mark.parametrize("kind", NAMED)
def test_hostile_names_are_drawn_as_text(kind, tmp_path):
    for ending in ("png", "svg"):
        DRAWN[kind](tmp_path / f"map.{ending}", names=HOSTILE)
    shown = " ".join(texts(tmp_path / "map.svg"))
    assert all(name in shown for name in ("$x^2$", "<b>&amp;", "^[[0m", "a^Jb", "\\frac"))
    assert "\x1b" not in shown


@pytest.mark.parametrize("kind", DRAWN)
def test_another_ending_is_refused(kind, tmp_path):
    with pytest.raises(RequestError, match=r"map.gif: .* drawn as .png .svg .pdf, not as '.gif'"):
        DRAWN[kind](tmp_path / "map.gif", names=["a"])


@pytest.mark.parametrize("size", [1, 40])
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


def test_a_title_from_right_to_left_begins_at_the_right():
    figure = words.draw(classified(), title="مرحبا " * 30)
    lines = [(text, box) for text, box in drawn_texts(figure) if "مرحبا" in text.get_text()]
    assert len(lines) > 2
    assert {text.get_horizontalalignment() for text, _ in lines} == {"right"}
