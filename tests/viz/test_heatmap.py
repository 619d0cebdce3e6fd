import subprocess
import sys
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image
from viz.special import boxes_of, texts

from regard.records import AttentionRecord, record
from regard.viz import fonts, heatmap

WORDS = ["über", "die", "Straße", "gehen", "Mädchen", "Kühlschrank", "wahrscheinlich", "ja", "nein", "Donaudampfschifffahrt"]


def made(rows, columns, seed=0):
    weights = np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), rows)
    return record(weights, [f"{WORDS[i % 10]}{i}" for i in range(columns)], [f"{WORDS[-i % 10]}{i}" for i in range(rows)])


@pytest.mark.parametrize("size", [(1, 1), (9, 4), (30, 41)], ids=str)
def test_nothing_is_cut_off_and_no_two_labels_overlap(size):
    figure = heatmap.draw(made(*size))
    axes = figure.axes[0]
    boxes_of(figure, figure.texts, slack=1)
    rows = sorted(box.y0 for box in boxes_of(figure, axes.get_yticklabels(), slack=1))
    assert all(b - a >= 7 * 1.2 / 72 * figure.dpi * 0.95 for a, b in pairwise(rows))
    boxes = boxes_of(figure, axes.get_xticklabels(), slack=1)
    if axes.get_xticklabels()[0].get_rotation() == 0:
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def test_bytes_do_not_depend_on_the_process_or_the_users_style(tmp_path):
    code = (
        "import matplotlib, numpy as np; matplotlib.rcParams.update({'font.size': 30, 'text.color': 'red'}); "
        "from regard.records import record; record(np.eye(2), ['a', 'b'], ['c', 'd']).save('map.svg')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    record(np.eye(2), ["a", "b"], ["c", "d"]).save(tmp_path / "here.svg")
    assert (tmp_path / "map.svg").read_bytes() == (tmp_path / "here.svg").read_bytes()


def test_png_opens_and_has_the_colours_of_its_weights(tmp_path):
    path = tmp_path / "map.png"
    figure = heatmap.draw(record([[1.0, 0.0]], ["a", "b"], ["x"]), path)
    image = Image.open(path).convert("RGB")
    assert image.size == tuple(int(150 * x) for x in figure.get_size_inches())
    colours = {colour for _, colour in image.getcolors(1 << 20)}
    assert {(255, 255, 255), (8, 48, 107)} <= colours


def test_global_state_is_left_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    made(2, 2).save(tmp_path / "map.pdf")
    assert dict(matplotlib.rcParams) == before
    code = (
        "import sys; from regard.records import record; record([[1.]], ['a'], ['b']).plot(); assert 'matplotlib.pyplot' not in "
    )
    code += "sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_small_print_says_what_is_shown_and_what_is_not(tmp_path):
    it = AttentionRecord(
        source_tokens=["a", "b", "</s>"],
        target_tokens=["x"],
        source_words=["a", "b"],
        target_words=["x"],
        source_word_of=[0, 1, -1],
        target_word_of=[0],
        weights={"cross": [[[0.5, 0.2, 0.3]], [[0.1, 0.0, 0.9]]]},
        reference="y z",
    )
    it.save(tmp_path / "map.svg", head=0)
    shown = " ".join(texts(tmp_path / "map.svg"))
    assert "Reference: y z" in shown
    assert "when it wrote that output word (cross, head 0 of 0 to 1)." in shown
    assert "Special tokens (</s>) are not drawn; they received 30% of the weight." in shown
    assert "Attention weights do not prove which words the model's output depends on." in shown
    assert "0.50" in shown
    heatmap.draw(it, tmp_path / "mean.svg")
    shown = " ".join(texts(tmp_path / "mean.svg"))
    assert "mean of 2 heads). Special tokens (</s>) are not drawn; they received 60% of the weight." in shown


def test_negative_weights_are_drawn_around_white(tmp_path):
    path = tmp_path / "map.png"
    heatmap.draw(record([[1.0, -1.0, 0.0]], ["a", "b", "c"], ["x"]), path)
    colours = {colour for _, colour in Image.open(path).convert("RGB").getcolors(1 << 20)}
    assert {(8, 48, 107), (103, 0, 31), (255, 255, 255)} <= colours


def test_a_letter_without_a_font_is_said_once_and_not_in_svg(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "_installed", dict)
    it = record(np.eye(2), ["吻", "了"], ["kissed", "past"])
    with pytest.warns(fonts.FontWarning, match=r"heatmap: No installed font has 2 of the characters.*Noto Sans CJK") as caught:
        it.save(tmp_path / "map.png")
    assert len(caught) == 1
    it.save(tmp_path / "map.svg")
    assert {"吻", "了"} <= set(texts(tmp_path / "map.svg"))


def test_fonts_are_chosen_by_what_they_have(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: {"Main": ("m", 0), "Chinese": ("c", 0), "Other": ("o", 0)})
    have = {"m": {ord("a")}, "c": {ord("吻")}, "o": {ord("吻"), ord("अ")}}
    monkeypatch.setattr(fonts, "_characters", lambda path, index: frozenset(have.get(path, {ord("ü")})))
    assert fonts.families(["aü"]) == ([fonts.MAIN], "")
    assert fonts.families(["吻"]) == ([fonts.MAIN, "Chinese"], "")
    assert fonts.families(["吻अ", "☃"]) == ([fonts.MAIN, "Chinese", "Other"], "☃")


def test_columns_run_from_right_to_left_where_their_words_do():
    it = record([[0.9, 0.1], [0.3, 0.7]], ["الولد", "يحب"], ["the", "boy"])
    axes = heatmap.draw(it).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["يحب", "الولد"]
    np.testing.assert_allclose(axes.collections[0].get_array(), it.matrix()[:, ::-1])


@pytest.mark.filterwarnings("ignore:Glyph")  # boxes are as wide as letters
@pytest.mark.parametrize("word", ["word", "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunter", "المكتبة", "图书馆"])
@pytest.mark.parametrize("size", [8, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 40, 120))])
def test_every_length_and_script_keeps_its_text_inside_and_apart_from_the_caption(word, size, monkeypatch):
    monkeypatch.setattr(fonts, "families", lambda words: ([fonts.MAIN], ""))
    weights = np.random.default_rng(0).dirichlet(np.ones(size), size)
    figure = heatmap.draw(record(weights, [word] * size, [word] * size))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert all(box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 for box in boxes)
    foot = max(text.get_window_extent(renderer).y1 for text in figure.texts if "model" in text.get_text())
    assert all(axes.get_tightbbox(renderer).y0 >= foot for axes in figure.axes)
    assert max(figure.get_size_inches()) < 30


def test_the_darkest_colour_is_a_round_number_that_no_weight_exceeds():
    for weights, darkest in (([[0.31, 0.29, 0.4]], 0.4), ([[1.0, 0.0, 0.0]], 1.0), ([[0.04, 0.03, 0.02]], 0.04)):
        [mesh] = heatmap.draw(record(np.array(weights), ["a", "b", "c"], ["x"])).axes[0].collections
        assert mesh.get_clim() == (0, pytest.approx(darkest))
