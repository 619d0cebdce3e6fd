"""Pictures, pages and captions of characters and tokens."""

import json
import re
import warnings

import numpy as np
import pytest
from rich.console import Console

from regard.records import AttentionRecord
from regard.viz import caption, page, terminal


def spelled(**changes):
    fields = {
        "source_tokens": (*"badin", "</s>"), "source_words": ("badin",), "source_word_of": (0,) * 5 + (-1,),
        "target_tokens": ("B", "AH", "D"), "target_words": ("B", "AH", "D"), "target_word_of": (0, 1, 2),
        "weights": {"cross": np.full((2, 3, 6), 1 / 6)}, "source_scheme": "characters",
    }  # fmt: skip
    return AttentionRecord(**{**fields, **changes})


def ticks(figure):
    return [[label.get_text() for label in getattr(figure.axes[0], f"get_{axis}ticklabels")()] for axis in "xy"]


def test_pictures_draw_characters_and_any_unit_that_is_asked_for(tmp_path):
    record = spelled()
    assert ticks(record.plot()) == [list("badin"), ["B", "AH", "D"]]
    assert ticks(record.plot(units="words")) == [["badin"], ["B", "AH", "D"]]
    assert ticks(spelled(source_scheme="").plot(units="tokens"))[0] == list("badin")
    record.save(tmp_path / "map.svg", units="words")
    assert (tmp_path / "map.svg").stat().st_size


def test_captions_name_the_units():
    record = spelled()
    assert caption.shows(record, ["cross"]).startswith("Each row shows which source characters the decoder attended to")
    assert "which source tokens" in caption.shows(spelled(source_scheme="").in_units("tokens"), ["cross"])
    assert "which source words" in caption.shows(record.in_units("words"), ["cross"])


def test_the_terminal_shows_characters(capsys):
    terminal.render(spelled(), Console(width=90))
    shown = capsys.readouterr().out
    assert re.search(r"b +a +d +i +n", shown)
    assert "source characters across, output words down" in shown


def data_of(text):
    return [json.loads(data) for data in re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)]


def test_a_page_can_switch_between_units():
    [data] = data_of(page.render(spelled()))
    assert {kind: words["source"] for kind, words in data["words"].items()} == {"characters": list("badin"), "words": ["badin"]}
    assert [view["units"] for view in data["views"]] == ["characters"] * 3 + ["words"] * 3
    assert [len(view["cells"]) for view in data["views"][2:4]] == [15, 3]
    [data] = data_of(page.render(spelled(), units="words"))
    assert list(data["words"]) == ["words", "characters"]
    [data] = data_of(page.render(spelled(source_scheme="", source_tokens=("ba", "d", "i", "n", "", "</s>"))))
    assert list(data["words"]) == ["words", "tokens"]


def test_a_classification_can_switch_too():
    record = spelled(
        target_tokens=("good",), target_words=("good",), target_word_of=(0,), probabilities={"good": 0.9, "bad": 0.1},
        weights={"pool": np.full((1, 6), 1 / 6)},
    )  # fmt: skip
    text = page.render(record)
    [data] = data_of(text)
    assert data["words"] == {"characters": list("badin"), "words": ["badin"]}
    assert text.count('<span class="word ') == 5


def test_a_character_without_a_font_is_reported(monkeypatch):
    from regard.viz import fonts

    monkeypatch.setattr(fonts, "_installed", dict)
    record = spelled(source_tokens=(*"今天很好吧", "</s>"), source_words=("今天很好吧",))
    with warnings.catch_warnings(), pytest.warns(fonts.FontWarning, match="今"):
        record.plot()
