"""Themes and scales: one meaning in every kind of picture."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image
from viz.special import texts

from regard.errors import RequestError
from regard.evaluation.calibration import ReliabilityBin
from regard.records import record
from regard.rendering import themed
from regard.viz import confusion, curves, losses, reliability
from regard.viz.colour import full_scale

MAP = record([[0.4, 0.001, 0.599], [0.3, 0.3, 0.4]], ["a", "b", "c"], ["x", "y"])
WORDS = record([[0.1, 0.2, 0.3, 0.4]], ["a", "b", "c", "d"], ["good"], probabilities={"good": 0.9, "bad": 0.1})
DRAWN = {
    "heatmap": lambda path, theme: MAP.save(path, theme=theme),
    "words": lambda path, theme: WORDS.save(path, theme=theme),
    "confusion": lambda path, theme: confusion.draw(np.eye(2, dtype=int), ["a", "b"], path),
    "reliability": lambda path, theme: reliability.draw([ReliabilityBin(0.0, 1.0, 3, 0.5, 0.5)], path),
    "curves": lambda path, theme: curves.draw({"a": {"step": [1, 2], "dev_nll": [2.0, 1.0], "bleu": [1.0, 9.0]}}, path),
    "losses": lambda path, theme: losses.draw({"one": {"attention": 0.3, "random": 0.1}}, path, title="t"),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_each_theme_has_its_background_and_letters_that_stand_out(kind, tmp_path):
    corners, brightest = {}, {}
    for theme in ("light", "dark", "transparent"):
        path = tmp_path / f"{theme}.png"
        with themed(theme):
            DRAWN[kind](path, theme)
        image = Image.open(path).convert("RGBA")
        corners[theme] = image.getpixel((1, 1))
        brightest[theme] = image.convert("L").getextrema()
    assert corners["light"] == (255, 255, 255, 255)
    assert corners["dark"] == (0x16, 0x18, 0x1D, 255)
    assert corners["transparent"][3] == 0
    assert brightest["light"][0] < 40
    assert brightest["dark"][1] > 215


def test_a_scale_makes_pictures_comparable_and_may_not_cut_weights_off():
    figure = MAP.plot(scale=1.0)
    mesh = figure.axes[0].collections[0]
    assert mesh.get_clim() == (0, 1)
    assert to_hex(mesh.cmap(mesh.norm(1.0))) == "#08306b"
    with pytest.raises(RequestError, match=r"scale is 0.5, but the largest weight of the picture is 0.599; give at least that"):
        MAP.plot(scale=0.5)
    with pytest.raises(RequestError, match="scale is nan"):
        WORDS.plot(scale=float("nan"))
    assert full_scale(np.float32([1.0000002]), given=1.0) == 1  # more than 1 by rounding only
    assert WORDS.plot().axes[-1].get_xlim() == (0, pytest.approx(0.4))  # a round number, as in heatmaps


def test_a_page_and_an_unknown_theme_are_refused(tmp_path):
    for name in ("a.html", "a.json", "a.npz"):
        for option in ({"theme": "dark"}, {"scale": 1.0}):
            with pytest.raises(RequestError, match=r"theme, scale, .* are for pictures"):
                MAP.save(tmp_path / name, **option)
    with pytest.raises(RequestError, match="theme is 'drak', expected one of: light, dark, transparent"):
        MAP.plot(theme="drak")
    assert not list(tmp_path.iterdir())


def test_cells_that_round_to_zero_are_empty_and_the_caption_says_so(tmp_path):
    MAP.save(tmp_path / "a.svg")
    shown = texts(tmp_path / "a.svg")
    assert "0.00" not in shown
    assert shown.count("0.40") == 2
    assert "Cells without a number: less than 0.005." in shown
    record([[0.4, 0.6]], ["a", "b"], ["x"]).save(tmp_path / "b.svg")
    assert not any("Cells without" in text for text in texts(tmp_path / "b.svg"))


def test_the_colour_bar_of_words_marks_the_uniform_weight(tmp_path):
    [mark] = WORDS.plot().axes[-1].lines
    assert mark.get_xdata() == [0.25]
    WORDS.save(tmp_path / "a.svg")
    assert "The mark on the colour bar: 1/4, the weight of each word if all had the same." in texts(tmp_path / "a.svg")
    tiny = record([[0.01, 0.01]], ["a", "b"], ["x"], probabilities={"x": 1.0})
    assert not tiny.plot().axes[-1].lines
    tiny.save(tmp_path / "b.svg")
    assert not any("mark" in text for text in texts(tmp_path / "b.svg"))


def test_scores_begin_at_zero_or_the_title_says_that_they_do_not():
    columns = {"step": [1, 2, 3], "dev_nll": [3.0, 2.5, 2.0], "bleu": [1.0, 9.0, 20.0], "accuracy": [0.8, 0.82, 0.85]}
    loss, bleu, accuracy = curves.draw({"run": columns}).axes[:3]
    assert bleu.get_ylim()[0] == 0 < accuracy.get_ylim()[0]
    assert "axis not from 0" in accuracy.get_title("left")
    assert not any("axis" in axes.get_title("left") for axes in (loss, bleu))
