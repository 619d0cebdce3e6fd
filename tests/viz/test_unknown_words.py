"""Words that are not in a model's vocabulary are underlined, and named below, in pictures, pages and terminals."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from regard.records import AttentionRecord, from_huggingface, record
from regard.viz import page, terminal

WORDS = ["The", "quokka", "sang", "zyx"]
UNDERLINE = re.compile(r"stroke-dasharray: 1,1\.5")


def made(*, reversed_words=False, **options):
    words = ["אבג", "דהו", "זחט", "יכל"] if reversed_words else WORDS
    sides = {
        "source_tokens": [words[0], "<unk>", words[2], "<unk>", "</s>"],
        "source_words": words,
        "source_word_of": [0, 1, 2, 3, -1],
        "target_tokens": ["Die", "<unk>"],
        "target_words": ["Die", "quokka"],
        "target_word_of": [0, 1],
    }
    return AttentionRecord(**{"weights": {"cross": np.full((2, 5), 0.2)}, **sides, **options})


def classified():
    label = {"target_tokens": ["good"], "target_words": ["good"], "target_word_of": [0], "probabilities": {"good": 1.0}}
    return made(**label, weights={"pool": np.full((1, 5), 0.2)})


def printed(it):
    console = Console(file=io.StringIO(), width=80, color_system="truecolor", force_terminal=True)
    terminal.render(it, console)
    return console.file.getvalue()


@pytest.mark.parametrize("it", [made(), classified()], ids=["matrix", "words"])
def test_terminals_underline_and_name_them(it):
    text = printed(it)
    underlined = re.findall(r"\x1b\[(?:[\d;]*;)?4(?:;[\d;]+)?m *([^\x1b ]+)", text)
    assert set(underlined) == {"quokka", "zyx"}
    assert "Not in the vocabulary: quokka, zyx." in text


def test_a_symbol_in_place_of_a_word_is_explained():
    text = printed(from_huggingface((np.full((1, 2, 4, 4), 0.25),), ["[CLS]", "a", "[UNK]", "[SEP]"]))
    assert "[UNK] stands for a word that is not in the vocabulary." in text
    assert "stands for" not in printed(made())


@pytest.mark.parametrize("reversed_words", [False, True])
def test_a_heatmap_underlines_them_at_their_places(reversed_words):
    it = made(reversed_words=reversed_words)
    axes = it.plot().axes[0]
    marked = [label.get_text() for label in (*axes.get_xticklabels(), *axes.get_yticklabels()) if label.get_bbox_patch()]
    assert sorted(marked) == sorted([it.source_words[1], it.source_words[3], "quokka"])


@pytest.mark.parametrize("it", [made(), classified()], ids=["matrix", "words"])
def test_pictures_underline_and_name_them(tmp_path, it):
    it.save(tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    assert len(UNDERLINE.findall(text)) == (3 if not it.is_classification else 2)
    assert "Not in the vocabulary: quokka, zyx." in text
    it.save(tmp_path / "plain.svg", caption=False)
    assert "vocabulary" not in (tmp_path / "plain.svg").read_text()


def test_a_grid_of_heads_underlines_them(tmp_path):
    tokens = ["[CLS]", "a", "[UNK]", "[SEP]"]
    grid = from_huggingface({"attentions": (np.full((1, 2, 4, 4), 0.25),)}, tokens)
    grid.save(tmp_path / "grid.svg", site="encoder")
    assert (
        len(UNDERLINE.findall((tmp_path / "grid.svg").read_text())) == 6
    )  # the columns twice above and below, two rows of words


def test_pages_underline_and_name_them():
    text = page.render(made())
    assert text.count('<span class="word unknown">quokka</span>') == 2
    assert text.count('<span class="unknown" dir="auto" title="zyx">') == 1
    assert "Not in the vocabulary: quokka, zyx." in text
    assert len(re.findall(r'class="word a\d+ unknown"', page.render(classified()))) == 2


def test_words_of_a_matrix_without_a_model_are_known(tmp_path):
    it = record([[1.0]], ["quokka"], ["quokka"])
    assert "vocabulary" not in printed(it)
    assert 'class="word unknown"' not in page.render(it)


def test_a_cell_without_weight_stays_empty():
    numbers = [text.get_text() for text in record([[0.96, 0.004]], ["a", "b"], ["x"]).plot().axes[0].texts]
    assert numbers == ["0.96", ""]
