from itertools import pairwise

import numpy as np
import pytest
from viz.special import boxes_of, shown_texts, texts

from regard.errors import RequestError
from regard.records import record
from regard.viz import grid, picture


def made(rows=3, columns=4, layers=2, heads=2):
    rng = np.random.default_rng(0)
    weights = {f"cross.{n}": rng.dirichlet(np.ones(columns), (heads, rows)) for n in range(layers)}
    weights["encoder.0"] = np.eye(columns)
    return record(weights, [f"source{n}" for n in range(columns)], [f"out{n}" for n in range(rows)])


def test_every_head_of_every_layer_is_drawn_and_named(tmp_path):
    it = made()
    it.save(tmp_path / "g.svg", site="cross")
    shown = texts(tmp_path / "g.svg")
    assert [text for text in shown if "· head" in text] == [
        "cross.0 · head 0", "cross.0 · head 1", "cross.1 · head 0", "cross.1 · head 1",
    ]  # fmt: skip
    assert shown.count("out0") == shown.count("source3") == 4  # at both ends of two layers, above and below of two heads
    assert "Down: output words. Across: source words. All weight is drawn." in " ".join(shown)
    assert any("do not prove" in text for text in shown)
    images = [image for axes in grid.draw(it, family="cross").axes for image in axes.get_images()]
    np.testing.assert_array_equal(images[3].get_array(), it.matrix("cross.1", 1))
    assert len({image.norm.vmax for image in images}) == 1


def test_attributions_are_not_among_them():
    weights = {"decoder.0": np.eye(3)[None], "decoder.rollout": np.eye(3), "decoder.values": np.eye(3)}
    assert grid.sites_of(record(weights, [], ["one", "two", "three"]), "decoder") == ["decoder.0", "decoder.rollout"]


def test_a_mean_of_layers_is_not_among_them(tmp_path):
    it = made()
    both = record({"cross": np.ones((3, 4)) / 4, **it.weights}, it.source_tokens, it.target_tokens)
    both.save(tmp_path / "g.svg", site="cross.*")
    assert sum("· head" in text for text in texts(tmp_path / "g.svg")) == 4
    assert "cross" not in texts(tmp_path / "g.svg")
    both.save(tmp_path / "h.svg", site="cross")  # a site of its own: the heatmap
    assert not [text for text in texts(tmp_path / "h.svg") if "· head" in text]


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (3, 20), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((40, 38), (60, 2)))]
)
def test_words_are_large_enough_to_read_do_not_overlap_and_are_not_cut_off(rows, columns):
    figure = grid.draw(made(rows, columns), family="cross")
    found, boxes = shown_texts(figure), {}
    for text, box in zip(found, boxes_of(figure, found), strict=True):
        boxes.setdefault(text.get_text(), []).append(box)
        if text.get_text().startswith(("out", "source")):
            assert text.get_fontsize() >= (6.5 if max(rows, columns) <= 48 else 5.0)
    outs = [boxes[f"out{n}"][0] for n in range(rows)]
    assert all(a.y0 + a.height / 2 > b.y0 + b.height / 2 + 0.7 * a.height for a, b in pairwise(outs))


@pytest.mark.parametrize(("size", "said"), [(5, False), (6, True)])
def test_lines_are_said_where_they_are_drawn(size, said, tmp_path):
    figure = grid.draw(made(size, size), tmp_path / "g.svg", family="cross")
    assert ("A line after every 5 rows and columns." in " ".join(texts(tmp_path / "g.svg"))) == said
    assert bool(figure.axes[0].lines) == said


def test_sites_without_heads_and_layers_of_other_numbers_of_heads(tmp_path):
    weights = {"encoder.0": np.eye(2), "encoder.1": np.stack([np.eye(2)] * 3)}
    it = record(weights, ["a", "b"], ["x"])
    grid.draw(it, tmp_path / "g.svg", family="encoder", title="Mine $")
    shown = texts(tmp_path / "g.svg")
    assert {"encoder.0", "encoder.1 · head 2", "Mine $"} <= set(shown)
    assert "Down: attending words. Across: attended words." in " ".join(shown)


def test_sites_of_one_kind_are_drawn_together_without_being_asked_for(tmp_path):
    one = record({f"encoder.{layer}": np.full((2, 2, 2), 0.5) for layer in range(3)}, ["a", "b"], [])
    one.save(tmp_path / "heads.svg")
    one.save(tmp_path / "same.svg", site="encoder")
    assert (tmp_path / "heads.svg").read_bytes() == (tmp_path / "same.svg").read_bytes()
    with pytest.raises(RequestError, match=r"several sites: name one of encoder.0, encoder.1"):
        one.save(tmp_path / "heads.svg", head=1)
    both = record({"encoder.0": np.eye(2), "decoder.0": np.eye(1)}, ["a", "b"], ["x"])
    with pytest.raises(
        RequestError, match=r"several sites: name one of encoder.0, decoder.0.*beginning of their names: site='encoder'"
    ):
        both.save(tmp_path / "heads.svg")


def test_refusals(tmp_path):
    with pytest.raises(
        RequestError, match="the record has no sites of the family 'encode', only of cross, encoder; did you mean"
    ):
        grid.draw(made(), family="encode")
    with pytest.raises(RequestError, match=r"g.gif: a grid is drawn as .png .svg .pdf, not as '.gif'"):
        grid.draw(made(), tmp_path / "g.gif", family="cross")
    with pytest.raises(RequestError, match="the record has no site 'cros', only"):
        made().plot(site="cros")


@pytest.mark.slow
def test_many_heads_of_a_long_sentence_do_not_make_a_huge_picture(monkeypatch):
    monkeypatch.setattr(picture, "_DPI", 40)
    it = made(100, 100, 12, 12)
    figure = grid.draw(it, family="cross")
    assert max(figure.get_size_inches()) < 48
    assert "out3" not in [text.get_text() for text in shown_texts(figure)]
    small = " ".join(text.get_text() for text in figure.texts)
    assert "They are not written, because the picture would be too large; draw one head to see them." in small


def test_the_direction_of_columns_is_said():
    figure = grid.draw(record({"cross.0": [np.eye(2)]}, ["الولد", "يحب"], ["the", "boy"]), family="cross")
    assert "Across: source words, from right to left." in " ".join(text.get_text() for text in figure.texts)
