"""What the text below pictures says: of which kind of model they are, and how much weight they leave out."""

import html
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console
from viz.special import bert, make, translation

from regard.evaluation.calibration import ReliabilityBin
from regard.records import record
from regard.viz import caption, confusion, page, reliability, terminal

NOTE = "Attention weights do not prove which words the model's output depends on."


def texts(path):
    return " ".join("".join(element.itertext()) for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text"))


def printed(it, **options):
    file = io.StringIO()
    terminal.render(it, Console(file=file, width=400), **options)
    return file.getvalue()


def everywhere(it, tmp_path, **options):
    """The text of a record's picture, page and terminal map."""
    it.save(tmp_path / "it.svg", **options)
    it.save(tmp_path / "it.html", **options)
    body = re.sub(r"<script.*?</script>", "", (tmp_path / "it.html").read_text().split("<main>")[1], flags=re.DOTALL)
    return texts(tmp_path / "it.svg"), html.unescape(re.sub(r"<[^>]*>", " ", body)), printed(it, **options)


@pytest.mark.parametrize("kind", ["picture", "page", "terminal"])
def test_the_weight_on_special_tokens_is_said_everywhere(kind, tmp_path):
    found = everywhere(bert(), tmp_path)[["picture", "page", "terminal"].index(kind)]
    assert (
        "Special tokens ([CLS], [SEP]) are not drawn; they received 45% of a row's weight on average and 70% at most." in found
    )


def test_a_grid_says_it_of_all_its_maps(tmp_path):
    weights = {"encoder.0": [[[0.5, 0.5], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]]}
    make(weights, ["[CLS]", "a"], []).save(tmp_path / "grid.svg", site="encoder.*")
    assert "Special tokens ([CLS]) are not drawn; they received 25% of a row's weight on average and 50% at most." in texts(
        tmp_path / "grid.svg"
    )


def test_special_tokens_are_drawn_when_asked_for(tmp_path):
    for found in everywhere(bert(), tmp_path, special=True):
        assert "Special tokens are drawn." in found
        assert found.count("[CLS]") >= 2  # a row and a column
    np.testing.assert_allclose(bert().view(special=True).matrix.sum(1), 1, rtol=1e-6)


def test_a_classifications_words_get_their_special_tokens(tmp_path):
    it = make({"pool": [[0.5, 0.2, 0.3]]}, ["[CLS]", "good", "[SEP]"], ["pos"], probabilities={"pos": 0.9, "neg": 0.1})
    for found in everywhere(it, tmp_path):
        assert "Special tokens ([CLS], [SEP]) are not drawn; they received 80% of the weight." in found
    for found in everywhere(it, tmp_path, special=True):
        assert "Special tokens are drawn." in found
        assert found.index("[CLS]") < found.index("[SEP]")


def test_nothing_left_out_is_said_too_and_rows_that_do_not_sum_to_one():
    view = record([[0.9, 0.1]], ["a", "b"], ["x"]).view()
    assert caption.hides([view]) == ["All weight is drawn."]
    view = record([[0.2, 0.1], [0.5, 0.1]], ["a", "b"], ["x", "y"]).view()
    assert caption.hides([view])[1:] == ["Rows sum to 0.30 to 0.60, not to 1."]
    assert caption.hides([record([[2.0, -1.5]], ["a", "b"], ["x"]).view()]) == ["All weight is drawn."]


def test_the_start_symbol_of_a_decoder_is_drawn_before_what_it_wrote():
    view = translation().view("decoder.0", special=True)
    assert (view.rows, view.columns) == (("x", "y", "</s>"), ("<s>", "x", "y"))
    np.testing.assert_allclose(view.matrix[2], 1 / 3, rtol=1e-6)
    plain = translation().view("decoder.0")
    np.testing.assert_allclose(plain.hidden, [1, 0.5])
    assert plain.special == ("<s>",)


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ("cross", "Each row shows which source words the decoder attended to when it wrote that output word (cross)."),
        ("encoder.0", "Each row shows which words the encoder attended to when it encoded that word (encoder.0)."),
        ("decoder.0", "which earlier output words the decoder attended to when it wrote that word (decoder.0)."),
    ],
)
def test_captions_fit_the_kind_of_attention(site, said, tmp_path):
    it = translation()
    it.save(tmp_path / "it.svg", site=site)
    for found in (texts(tmp_path / "it.svg"), printed(it, site=site), page.render(it)):
        assert said in found
        assert NOTE in found or "model&#39;s output" in found


def test_captions_of_language_models_classifiers_and_causal_encoders():
    causal = np.tril(np.ones((3, 3)))
    language = make({"decoder.0": causal}, [], ["<s>", "a", "b"], target_is_read=True)
    assert "which words up to that word the model attended to when it predicted the next one" in printed(language)
    label = record([[1.0]], ["a"], ["x"], probabilities={"x": 1.0})
    assert "The colours show which words the model attended to when it chose the label (pool)." in printed(label)
    gpt = make({"encoder.0": causal}, ["a", "b", "c"], [])
    assert "which words up to that word the model attended to when it read that word" in printed(gpt)
    both = make({"decoder.0": causal, "cross.0": causal}, ["a", "b", "c"], ["<s>", "a", "b"], target_is_read=True)
    assert "which source words the model attended to when it read that word" in printed(both, site="cross.0")
    assert "wrote" not in printed(both, site="decoder.0")


def test_rollout_and_norms_are_named():
    square = {"encoder.0": np.eye(2), "norm.0": [[0.5, 0.5]]}
    it = record(square, ["a", "b"], ["x"])
    assert "followed through all layers (attention rollout)" in caption.shows(it.rollout("encoder"), ["encoder.rollout"])
    assert "norm-based attention" in caption.shows(it, ["norm.0"])


def test_pictures_without_prose(tmp_path):
    for found in everywhere(bert(), tmp_path, caption=False):
        assert "Each row" not in found
        assert "Special tokens" not in found
        assert "do not prove" not in found
    it = record([[1.0]], ["a"], ["x"], probabilities={"x": 0.9, "y": 0.1}, reference="y")
    shown = everywhere(it, tmp_path, caption=False)
    assert not any("colours" in found or "Other labels" in found for found in shown)
    bert().save(tmp_path / "grid.svg", site="encoder.*", caption=False)
    confusion.draw(np.eye(2, dtype=int), ["a", "b"], tmp_path / "c.svg", caption=False)
    reliability.draw([ReliabilityBin(0.0, 1.0, 3, 0.5, 0.5)], tmp_path / "r.svg", caption=False)
    for name in ("grid", "c", "r"):
        assert len(texts(tmp_path / f"{name}.svg")) < 180, name


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "html"])
def test_an_empty_translation_has_a_picture(ending, tmp_path):
    it = make({"cross": [[0.5, 0.5]]}, ["a", "</s>"], ["</s>"], reference="b")
    it.save(tmp_path / f"it.{ending}")
    if ending in ("svg", "html"):
        assert "The translation is empty." in (tmp_path / f"it.{ending}").read_text()
    it.save(tmp_path / f"special.{ending}", special=True)
    assert "The translation is empty." in printed(it)


def test_empty_grids_texts_and_sources_have_one_too(tmp_path):
    make({"cross.0": np.zeros((0, 1))}, ["a"], []).save(tmp_path / "grid.svg", site="cross.*")
    assert "The translation is empty." in texts(tmp_path / "grid.svg")
    make({"encoder.0": [[1.0]]}, ["</s>"], []).save(tmp_path / "encoder.svg")
    assert "The text has no words." in texts(tmp_path / "encoder.svg")
    make({"pool": [[1.0]]}, ["[CLS]"], ["x"], probabilities={"x": 0.6, "y": 0.4}).save(tmp_path / "words.svg")
    assert "The text has no words." in texts(tmp_path / "words.svg")
    make({"cross": np.zeros((1, 0))}, [], ["x"]).save(tmp_path / "source.svg")
    assert "The source is empty." in texts(tmp_path / "source.svg")
    rows = make({"cross.0": [[0.5, 0.5]]}, ["[CLS]", "a"], ["[CLS]"], target_is_read=True)
    assert "The rows have no words." in printed(rows)
