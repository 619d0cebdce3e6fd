import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import RequestError
from regard.records import AttentionRecord, record
from regard.viz import page, page_views

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'&amp;",
    "<!--",
    "]]>",
    "\x00\x1b\u2028",
    "\ud800",
]


class Reader(HTMLParser):
    """All tags, and the text of every cell, heading and word."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.texts = [], [], {}

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append((tag, dict(attributes).get("class", "")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def data_of(text):
    return [json.loads(x) for x in re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)]


def heads():
    weights = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4)).astype(np.float32)
    return record({"cross": weights, "encoder.0": np.eye(3)}, ["a", "b", "c"], ["w", "x", "y", "z"], score=-1.5, reference="r")


def test_the_table_is_there_without_scripts():
    reader = read(page.render(record([[0.25, 0.75], [1.0, 0.0]], ["good", "day"], ["guten", "tag"])))
    assert reader.texts["td", "a5"] == ["0.25"]
    assert reader.texts["td", "a15"] == ["0.75"]
    assert reader.texts["td", "a20"] == ["1.00"]
    assert [t for t in reader.texts["span", ""] if t in ("good", "day", "guten", "tag")] == ["good", "day", "guten", "tag"]
    assert reader.texts["span", "word"] == ["good", "day", "guten", "tag"]


def test_nothing_is_fetched_and_only_the_own_script_may_run():
    text = page.render([heads(), heads()])
    assert not re.search(
        r"https?:|//\w|url\(|@import|\bsrc=|<link|\bon\w+=|style=", re.sub("'sha256-[^']+'", "", text).split("<script>")[0]
    )
    scripts = "".join(map(page._asset, ("page_places.js", "page.js", "page_words.js")))
    assert not re.search(r"fetch|XMLHttp|import\(|WebSocket|innerHTML|eval", scripts)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy


def test_hostile_words_stay_words():
    it = record(
        np.eye(7), HOSTILE, HOSTILE, source_text=HOSTILE[0], target_text=HOSTILE[1], reference=HOSTILE[0], note=HOSTILE[0]
    )
    text = page.render([it, it])
    text.encode()
    tags = [tag for tag, _ in read(text).tags]
    assert tags.count("script") == 3
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attributes in read(text).tags for name in attributes)
    assert data_of(text)[0]["words"]["words"]["source"][0] == HOSTILE[0]
    assert "\x00" not in text


def test_a_hostile_site_stays_a_name():
    it = record({HOSTILE[0]: [[1.0]]}, ["a"], ["b"])
    assert [tag for tag, _ in read(page.render(it)).tags].count("script") == 2
    assert data_of(page.render(it))[0]["views"][0]["site"] == HOSTILE[0]


def test_all_sites_and_heads_are_in_the_data_on_one_scale():
    [data] = data_of(page.render(heads()))
    assert [(view["site"], view["head"]) for view in data["views"]] == [
        ("cross", None), ("cross", 0), ("cross", 1), ("encoder.0", None),
    ]  # fmt: skip
    for view in data["views"]:
        expected = heads().matrix(view["site"], view["head"])
        got = np.array(view["cells"]).reshape(expected.shape) / 10 ** view["places"]
        np.testing.assert_allclose(got, expected, atol=0.00501)
    assert data["views"][3]["rows"] == data["views"][3]["columns"] == "source"
    assert [view["names"] for view in data["views"][2:4]] == [["output", "source"], ["attending", "attended"]]
    assert {view["scale"] for view in data["views"]} == {1}


def test_attributions_have_scales_of_their_own_and_do_not_pale_the_attention():
    weights = {"cross": [[0.9, 0.1], [0.2, 0.8]], "integrated": [[11.2, -0.3], [0.0, 120]], "values": [[0.001, 0], [0, 0]]}
    it = record(weights, ["a", "b"], ["x", "y"])
    text = page.render(it)
    assert re.findall("<td class=(.*?)</td>", text) == ["a18>0.90", "a2>0.10", "a4>0.20", "a16>0.80"]
    assert 'class="top">1</span>' in text
    cross, integrated, values = data_of(text)[0]["views"]
    assert [(view["scale"], view["top"], view["digits"]) for view in (cross, integrated, values)] == [
        (1, "1", 2), (120, "120", 0), (0.001, "0.001", 4),
    ]  # fmt: skip
    assert integrated["cells"] == [11, 0, 0, 120]
    assert "Cells without a number" not in cross["told"]
    assert "Cells without a number: less than 0.5." in integrated["told"]
    assert "Cells without a number: less than 0.00005." in values["told"]


def test_the_page_begins_with_a_chosen_site(tmp_path):
    it = record({"cross": [[1.0]], "integrated": [[-3.0]], "pool": [[0.5]]}, ["a"], ["x"])
    it.save(tmp_path / "it.html", site="integrated")
    text = (tmp_path / "it.html").read_text()
    assert "<td class=b20>-3.00</td>" in text
    assert [view["site"] for view in data_of(text)[0]["views"]] == ["integrated", "cross", "pool"]
    assert data_of(page.render(it, site="encoder"))[0]["views"][0]["site"] == "cross"


def test_facts_and_several_records():
    text = page.render([heads(), record([[1.0]], ["a"], ["b"])])
    assert '<dt>reference</dt><dd dir="auto">r</dd><dt>score of the search</dt><dd dir="auto">-1.50</dd>' in text
    assert 'href="#record-1"' in text
    assert 'id="record-1"' in text
    with pytest.raises(RequestError, match="there is no record to show, expected at least one"):
        page.render([])


def test_what_was_trimmed_is_said():
    it = AttentionRecord(
        source_tokens=["a", "</s>"], target_tokens=["x"], source_words=["a"], target_words=["x"],
        source_word_of=[0, -1], target_word_of=[0], weights={"cross": [[0.6, 0.4]]},
    )  # fmt: skip
    assert "Special tokens (&lt;/s&gt;) are not drawn; they received 40% of the weight." in page.render(it)


def test_size_is_bounded(monkeypatch):
    words = [f"w{i}" for i in range(100)]
    weights = np.random.default_rng(0).dirichlet(np.full(100, 0.1), (8, 100))
    assert len(page.render(record(weights, words, words))) < 800_000
    monkeypatch.setattr(page, "MAX_CELLS", 35_000)
    text = page.render(record(weights, words, words))
    assert [view["head"] for view in data_of(text)[0]["views"]] == [None, 0, 1]
    assert "it leaves out 6 further matrices (heads or sites)." in text


def test_empty_and_negative_matrices_have_a_page():
    assert "<td" not in page.render(record(np.zeros((0, 1)), ["a"], []))
    text = page.render(record([[-1.0, 0.5]], ["a", "b"], ["x"]))
    assert "<td class=b20>-1.00</td>" in text
    assert "weight -1<" in text


def test_tables_and_sentences_run_as_their_words_do():
    text = page.render(record(np.eye(2), ["قبلت", "الولد"], ["she", "him"]))
    assert '<div class="scroll" dir="rtl"><table class=""' in text
    assert text.count('class="words" dir="auto"') == 2
    assert data_of(text)[0]["rtl"] == ["source"]
    assert '<div class="scroll" dir="ltr"><table class=""' in page.render(heads())


def test_a_text_without_a_prompt_is_its_own_heading():
    it = AttentionRecord(
        source_tokens=(), source_words=(), source_word_of=(), target_tokens=("<s>", "once"), target_words=("once",),
        target_word_of=(-1, 0), weights={"decoder.0": [[1.0, 0.0], [0.4, 0.6]]}, source_text="", target_text="once",
        target_is_read=True,
    )  # fmt: skip
    text = page.render(it)
    assert '<h2 dir="auto">once</h2>' in text
    assert "<title>once</title>" in text
    assert "␣" not in text
    assert "<dt>output</dt>" not in text
    assert 'title="Attention of: once"' in it._repr_html_()


@pytest.mark.parametrize("size", [1, 8, 40, 120])
def test_pages_of_every_length_are_of_bounded_size(size):
    words = ["Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunter"] * size
    text = page.render(record(np.full((size, size), 1 / size), words, words))
    assert read(text)
    assert len(text) < 60_000 + 60 * size**2 + 400 * size


def test_a_notebook_gets_the_page_in_a_sandboxed_frame():
    frame = heads()._repr_html_()
    [(tag, attributes), (script, _)] = read(frame).tags
    assert (tag, attributes["sandbox"], script) == ("iframe", "allow-scripts", "script")
    inside = attributes["srcdoc"]
    assert inside in html.unescape(frame)
    body = re.compile(r"<body>.*</main>", re.DOTALL)
    assert body.search(inside)[0] == body.search(page.render(heads()))[0]
    assert "regardHeight" not in page.render(heads())  # a page of its own tells nobody


# Classifications: page_words.


def classified(**fields):
    return record([[0.0, 0.1, 0.3]], ["a", "dull", "film"], ["bad"], **{"probabilities": {"bad": 0.75, "good": 0.25}} | fields)


def test_words_have_shades_and_weights_without_scripts():
    text = page.render(classified(reference="good"))
    assert re.findall(r'<span class="word (\w+)" title="([\d.]+)">(\w+)</span>', text) == [
        ("a0", "0.00", "a"), ("a7", "0.10", "dull"), ("a20", "0.30", "film"),
    ]  # fmt: skip
    assert '<h2 dir="auto">bad (true label: good)</h2>' in text
    assert '<span class="top">0.30</span>' in text
    assert "do not prove which words" in text
    assert "matrix" not in re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)


def test_each_label_has_its_bar_the_most_probable_first():
    text = page.render(classified(probabilities={"good": 0.25, "bad": 0.75}))
    rows = re.findall(r'title="(\w+)">\w+</span></th><td>([\d.]+)</td><td><svg [^>]*><rect width="(\d+)"', text)
    assert rows == [("bad", "0.75", "750"), ("good", "0.25", "250")]
    many = page.render(classified(probabilities={f"l{n}": 1 / 30 for n in range(30)}))
    assert many.count("<rect") == page_views.MOST_LABELS == 20
    assert "and 10 less probable labels" in many


def test_heads_and_sites_over_words_are_data_and_those_among_words_matrices():
    weights = {"pool": [[[0.5, 0.5]], [[0.0, 1.0]]], "other": [[0.2, 0.8]], "encoder.0": np.eye(2)}
    text = page.render(record(weights, ["a", "b"], ["x"], probabilities={"x": 1.0}))
    words, matrices = data_of(text)
    assert [(view["site"], view["head"], view["cells"], round(view["scale"], 6)) for view in words["views"]] == [
        ("pool", None, [25, 75], 0.75), ("pool", 0, [50, 50], 0.5), ("pool", 1, [0, 100], 1.0),
        ("other", None, [20, 80], 0.8),
    ]  # fmt: skip
    assert [view["site"] for view in matrices["views"]] == ["encoder.0"]
    assert '<section class="matrix">' in text
    assert text.count("do not prove which words") == 1
    read(text)


def test_hostile_words_and_labels_stay_text():
    labels = dict.fromkeys(HOSTILE, 0.1)
    it = record(
        [np.full(len(HOSTILE), 0.1)], HOSTILE, [HOSTILE[1]], probabilities=labels, reference=HOSTILE[0], note=HOSTILE[0]
    )
    text = page.render([it, it])
    text.encode()
    tags = [tag for tag, _ in read(text).tags]
    assert tags.count("script") == 3
    assert "img" not in tags
    names = {name for _, attributes in read(text).tags for name in attributes}
    assert not any(name.startswith("on") or name == "style" for name in names)
    assert data_of(text)[0]["words"]["words"][0] == HOSTILE[0]


def test_several_kinds_stand_on_one_page_with_their_labels():
    translation = record([[1.0]], ["her"], ["sie"])
    text = page.render([classified(), translation])
    assert "<h1>Attention of 2 sentences</h1>" in text
    assert ">bad: a dull film</a>" in text
    assert ">her</a>" in text
    assert "<h1>Attention of 2 texts</h1>" in page.render([classified(), classified()])


@pytest.mark.parametrize(("scale", "shown"), [(0.4, "0.40"), (0.01, "0.010"), (1e-6, "0.0000010")])
def test_small_weights_keep_their_figures(scale, shown):
    it = record([[scale]], ["a"], ["x"], probabilities={"x": 1.0})
    assert f'title="{shown}">a</span>' in page.render(it)
