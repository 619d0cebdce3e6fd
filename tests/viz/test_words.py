from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch
from PIL import Image
from viz.special import boxes_of, texts

from regard.records import record
from regard.viz import drawing, words

TEXT = ["a", "gripping", ",", "honest", "film", "that", "never", "quite", "forgets", "it", "is", "a", "comedy", ",", "too", "."]


def made(text=TEXT, label="positive", seed=0, **fields):
    weights = np.random.default_rng(seed).dirichlet(np.full(len(text), 0.3), 1)
    return record(weights, text, [label], **{"probabilities": {"positive": 0.934, "negative": 0.066}} | fields)


@pytest.mark.parametrize("size", [1, 60, 400])
def test_every_word_is_there_in_order_and_nothing_overlaps_or_is_cut_off(size, tmp_path):
    it = made([f"{TEXT[i % 12]}{i}" for i in range(size)])
    figure = words.draw(it, tmp_path / "words.svg")
    assert [text for text in texts(tmp_path / "words.svg") if text in it.source_words] == list(it.source_words)
    boxes_of(figure, figure.texts)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [patch.get_window_extent(renderer) for patch in figure.findobj(FancyBboxPatch)][:60]
    assert not any(a.x1 > b.x0 and b.x1 > a.x0 and a.y1 > b.y0 and b.y1 > a.y0 for a, b in combinations(boxes, 2))


def test_the_greatest_weight_has_the_darkest_colour_and_none_is_white(tmp_path):
    path = tmp_path / "words.png"
    record([[0.0, 0.3]], ["a", "b"], ["x"], probabilities={"x": 1.0}).save(path)
    colours = {colour for _, colour in Image.open(path).convert("RGB").getcolors(1 << 20)}
    assert {(255, 255, 255), (8, 48, 107)} <= colours


def test_label_truth_probabilities_weights_and_the_note_are_said(tmp_path):
    it = record(
        [[0.25, 0.75]], ["dull", "gripping"], ["good"], probabilities={"bad": 0.2, "good": 0.8}, reference="bad", note="A note."
    )
    it.save(tmp_path / "words.svg")
    shown = texts(tmp_path / "words.svg")
    assert "good · 0.80 (true label: bad)" in shown
    assert "Most weight: gripping 0.75 · dull 0.25." in shown
    assert "Other labels: bad 0.20." in shown
    assert not any("good 0.80" in text for text in shown)
    assert {"A note.", "weight", "0", "0.80"} <= set(shown)


def test_equal_weights_name_no_words_and_values_are_not_called_weights(tmp_path):
    record([[0.25, 0.25, 0.25]], ["a", "b", "c"], ["x"], probabilities={"x": 1.0}).save(tmp_path / "words.svg")
    assert "All words have the same weight, 0.25." in texts(tmp_path / "words.svg")
    record({"values": [[0.5, -0.25]]}, ["a", "b"], ["x"], probabilities={"x": 1.0}).save(tmp_path / "values.svg")
    assert "value" in texts(tmp_path / "values.svg")
    assert "weight" not in texts(tmp_path / "values.svg")


def test_the_mark_of_equal_weights_needs_weights_that_sum_to_one(tmp_path):
    record([[0.9, 0.8, 0.7]], ["a", "b", "c"], ["x"], probabilities={"x": 1.0}).save(tmp_path / "sigmoid.svg")
    assert not any("The mark on the colour bar" in text for text in texts(tmp_path / "sigmoid.svg"))
    made().save(tmp_path / "softmax.svg")
    assert any("The mark on the colour bar" in text for text in texts(tmp_path / "softmax.svg"))


def test_a_label_without_a_probability_and_a_title_of_ones_own(tmp_path):
    it = made(label="both of them")
    it.save(tmp_path / "words.svg")
    assert "both of them" in texts(tmp_path / "words.svg")
    words.draw(it, tmp_path / "mine.svg", title="Mine")
    assert "Mine" in texts(tmp_path / "mine.svg")


def test_texts_from_right_to_left_begin_at_the_right():
    figure = words.draw(made(["رائع", "جدا", "ok"]))
    lefts = [patch.get_x() for patch in figure.findobj(FancyBboxPatch)][:3]
    assert lefts == sorted(lefts, reverse=True)
    assert lefts[2] > figure.get_size_inches()[0] / 2


def test_heads_and_sites_can_be_chosen(tmp_path):
    weights = {"pool": [[[0.9, 0.1]], [[0.1, 0.9]]], "encoder.0": np.eye(2)}
    it = record(weights, ["dull", "gripping"], ["good"], probabilities={"good": 1.0}, reference="bad")
    it.save(tmp_path / "head.svg", head=1)
    assert "Most weight: gripping 0.90 · dull 0.10." in texts(tmp_path / "head.svg")
    assert "(pool, head 1 of 0 to 1)." in " ".join(texts(tmp_path / "head.svg"))
    it.save(tmp_path / "encoder.svg", site="encoder.0")  # words among words: a heatmap
    shown = texts(tmp_path / "encoder.svg")
    assert shown.count("gripping") == 2
    assert {"attending", "attended"} <= set(shown)
    assert "True label: bad" in shown


def test_what_fell_on_special_symbols_is_said(tmp_path):
    it = made()
    fields = {
        name: getattr(it, name) for name in ("source_tokens", "target_tokens", "target_words", "target_word_of", "weights")
    }
    it = type(it)(**fields, source_words=TEXT[:-1], source_word_of=[*range(len(TEXT) - 1), -1], probabilities={"positive": 1.0})
    it.save(tmp_path / "words.svg")
    assert "Special tokens (.) are not drawn; they received " in " ".join(texts(tmp_path / "words.svg"))


def test_plain_records_stay_heatmaps_and_all_zero_or_negative_weights_are_drawn(tmp_path):
    drawing.draw(record([[0.5, 0.5]], ["a", "b"], ["x"]), tmp_path / "map.svg")
    assert "output" in texts(tmp_path / "map.svg")
    record([[0.0, 0.0]], ["a", "b"], ["x"], probabilities={"x": 1.0}).save(tmp_path / "zero.svg")
    assert "No word has any weight." in texts(tmp_path / "zero.svg")
    record([[-0.5, 0.25]], ["a", "b"], ["x"], probabilities={"x": 1.0}).save(tmp_path / "signed.svg")
    assert {"-0.50", "0.50", "Most weight: a -0.50 · b 0.25."} <= set(texts(tmp_path / "signed.svg"))
