"""The living page in a real browser, from a file and without a network: what a user sees and does."""

import pytest
from export.conftest import SENTENCES
from export.page_models import make_translator

from regard.export.page import write_page

pytestmark = pytest.mark.browser


def show(browser, page, **options):
    browser.open(page, **options)
    browser.wait("document.body.dataset.runs")
    settle(browser)


def settle(browser):
    """Wait until the page shows the results of the last change."""
    browser.run("new Promise((resolve) => setTimeout(resolve))")
    browser.wait("Number(document.body.dataset.runs) === globalThis.regard.runs")


def type_text(browser, text):
    browser.run("document.querySelector('#text').select()")
    browser.click("#text")
    browser.run("document.querySelector('#text').select()")
    browser.type(text)
    settle(browser)


@pytest.mark.parametrize("name", ["recurrent", pytest.param("subwords", marks=pytest.mark.slow)])
def test_a_translator_opens_with_an_example_and_translates_what_is_typed(browser, made, name):
    translator = made.load(name)
    show(browser, made.page(name))
    assert browser.texts(".example") == SENTENCES
    [expected] = translator.translate(SENTENCES[:1], beam_size=5)
    assert browser.text(".result") == expected.text
    browser.click(".example", 1)
    settle(browser)
    [expected] = translator.translate(SENTENCES[1:], beam_size=5)
    assert browser.text(".result") == expected.text
    type_text(browser, "The dog gives the zzz a red apple.")
    [expected] = translator.translate(["The dog gives the zzz a red apple."], beam_size=5)
    assert browser.text(".result") == expected.text
    browser.choose("#search select", 1)
    settle(browser)
    [expected] = translator.translate(["The dog gives the zzz a red apple."], beam_size=1)
    assert browser.text(".result") == expected.text
    assert browser.requests() == []
    assert browser.errors() == []


@pytest.mark.parametrize("name", ["recurrent", pytest.param("subwords", marks=pytest.mark.slow)])
def test_bands_and_matrix_show_the_weights(browser, made, name):
    show(browser, made.page(name))
    [expected] = made.load(name).translate(SENTENCES[:1], beam_size=5)
    view = expected.attention.view("cross")
    assert browser.texts(".matrix thead th span") == list(view.columns)
    assert browser.texts(".matrix tbody th") == list(view.rows)
    shown = browser.run("[...document.querySelectorAll('.matrix td[role]')].map((one) => one.ariaLabel)")
    wanted = [
        f"{row} reads {column}: {share(weight)}"
        for row, weights in zip(view.rows, view.matrix, strict=True)
        for column, weight in zip(view.columns, weights, strict=True)
    ]
    differing = [(one, other) for one, other in zip(shown, wanted, strict=True) if one != other]
    assert len(differing) <= 1, differing  # one may be rounded the other way
    bands = browser.run(
        "[...document.querySelectorAll('.band')].map((one) => [one.dataset.row, one.dataset.column].map(Number))"
    )
    assert sorted(bands) == [
        [row, column] for row, weights in enumerate(view.matrix) for column, weight in enumerate(weights) if weight >= 0.015
    ]
    assert browser.texts(".bands .source text") == list(view.columns)


def share(weight):
    return "<1%" if 0 < weight < 0.005 else f"{int(100 * weight + 0.5)}%"


PICTURE = "globalThis.regard.views[0].picture()"
COLOURS = (  # as a canvas paints them
    "((values) => values.map((value) => { const c = new OffscreenCanvas(1, 1).getContext('2d'); c.fillStyle = value;"
    "c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; }))"
)


def dotted(browser):
    """The words of the saved picture with a dotted line."""
    marked = f"[...{PICTURE}.querySelectorAll('text')].filter((one) => /dotted/.test(one.getAttribute('text-decoration')))"
    return browser.run(f"{marked}.map((one) => one.textContent)")


def test_the_saved_picture_of_a_translator_looks_like_the_page(browser, made):
    show(browser, made.page("recurrent"))
    type_text(browser, "The dog zzz qqq.")
    assert dotted(browser) == ["zzz", "qqq"] * 2  # at the bands and at the matrix
    on_page = "[...document.querySelectorAll('.matrix td[role]')].map((one) => getComputedStyle(one).backgroundColor)"
    in_picture = f"[...{PICTURE}.querySelectorAll('g > rect[rx]')].map((one) => one.getAttribute('fill'))"
    shown, saved = browser.run(f"{COLOURS}({on_page})"), browser.run(f"{COLOURS}({in_picture})")
    assert len(shown) == len(saved) > 4
    assert max(abs(a - b) for one, other in zip(shown, saved, strict=True) for a, b in zip(one, other, strict=True)) <= 1


def test_the_saved_picture_of_a_classifier_marks_unknown_words(browser, made):
    show(browser, made.page("reviews"))
    type_text(browser, "an honest film , but the zzz ending is dull .")
    assert dotted(browser) == browser.texts(".chip.unknown") != []
    assert browser.errors() == []


def test_unknown_words_are_marked(browser, made):
    show(browser, made.page("recurrent"))
    type_text(browser, "The dog zzz qqq.")
    assert browser.texts(".bands .source.unknown text") == ["zzz", "qqq"]
    assert "Not in the vocabulary: zzz, qqq." in browser.text(".note")


def test_mistakes_are_told_in_words(browser, made):
    show(browser, made.page("recurrent"))
    type_text(browser, "word " * 300)
    assert browser.text(".message") == "The text has 300 tokens; this model reads at most 200. Shorten it."
    assert not browser.run("document.querySelector('.figure').checkVisibility()")
    type_text(browser, "The dog.")
    assert browser.text(".message") == ""
    assert browser.run("document.querySelector('.figure').checkVisibility()")


def test_a_classifier_shows_labels_and_weights(browser, made):
    show(browser, made.page("reviews"))
    classifier = made.load("reviews")
    type_text(browser, "an honest film , but the zzz ending is dull .")
    [expected] = classifier.classify(["an honest film , but the zzz ending is dull ."])
    assert browser.text(".result").split(" ")[0] == expected.label.split(" ")[0]
    assert browser.texts(".labels .name") == list(expected.probabilities)
    assert browser.texts(".labels .share") == [share(one) for one in expected.probabilities.values()]
    weights = expected.attention.word_weights()
    shown = browser.run("[...document.querySelectorAll('.chip')].map((one) => one.title.split(' ')[1])")
    assert shown == [share(weight) for weight in weights]
    assert browser.texts(".chip.unknown") != []
    assert browser.text(".hint").startswith("The stronger the colour of a word, the larger its weight;")
    browser.run("document.querySelector('footer details').open = true")
    shown = "[...document.querySelectorAll('dt')].filter((one) => one.checkVisibility())"
    keys = browser.run(f"{shown}.map((one) => one.innerText)")
    assert keys == ["Tab", "Enter"]


@pytest.mark.parametrize("name", ["recurrent", "reviews"])
def test_each_stage_opens_to_its_formula_and_its_data(browser, made, name):
    show(browser, made.page(name))
    last = "Label" if name == "reviews" else "Words"
    assert browser.texts(".stage .name") == ["Text", "Tokens", "States", "Attention", last]
    shown = {}
    for number, stage in enumerate(browser.texts(".stage .name")):
        browser.click(".stage", number)
        assert browser.texts('.stage[aria-expanded="true"] .name') == [stage]
        shown[stage] = browser.text(".panel")
    words = browser.run("globalThis.regard.views[0].result.source.words")
    browser.click(".stage", 1)
    assert browser.texts(".tokens span[title]")[: len(words)] == [word.lower() for word in words]
    assert "tanh" in shown["Attention"]
    assert "softmax" in shown[last]
    browser.click(".stage", 1)
    assert not browser.run("document.querySelector('.panel').checkVisibility()")
    assert browser.errors() == []


def test_sums_and_formulas_are_those_of_the_model(browser, made):
    for name, weights, label in (("mean", "softmax of the scores over j", "softmax"), ("sigmoid", "σ(scorej)", "σ")):
        show(browser, made.page(name))
        assert ("sum to 100%" in browser.text(".hint")) == (name == "mean")
        browser.click(".stage", 3)
        assert ("sum to 100%" in browser.text(".panel")) == (name == "mean")
        assert f"weightj = {weights}" in browser.text(".panel")
        browser.click(".stage", 4)
        assert f"{label}(W context + b)" in browser.text(".panel")
        assert len(browser.texts(".labels .name")) == 3
        assert browser.errors() == []


def test_hostile_text_stays_inert(browser, made, tmp_path):
    hostile = "</script><script>document.title='taken'</script><img src=https://example.org/x onerror=document.title='taken'>"
    page = write_page(made.run("reviews"), tmp_path / "page.html", examples=[hostile], title=hostile)
    show(browser, page.path)
    assert browser.texts(".example") == [hostile]
    assert browser.run("document.title") == hostile
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.texts(".labels .name") == ["so <b>so</b>"] * 0 + browser.texts(".labels .name")
    assert "so <b>so</b>" in browser.texts(".labels .name")
    assert browser.requests() == []


@pytest.mark.slow
def test_hostile_words_of_the_vocabulary_stay_inert(browser, tmp_path):
    words = ["</script><script>alert(1)</script>", "<img/src=x/onerror=alert(1)>"]
    words += ["__proto__", "{{DATA}}", "<!--<script>", "&lt;"]
    run = make_translator(tmp_path / "hostile", kind="whitespace", further=words)
    show(browser, write_page(run, tmp_path / "page.html", examples=[" ".join(words)]).path)
    assert browser.texts(".bands .source text")[2:] == words[2:]  # long ones are shortened
    assert browser.texts(".matrix thead th span") == words
    assert browser.texts(".bands .source.unknown text") == []
    browser.run("globalThis.regard.views[0].force(document.querySelector('#text').value)")
    settle(browser)
    assert browser.text(".result") == " ".join(words)
    assert browser.texts(".matrix tbody th") == words
    assert browser.texts(".step") == [*words, "end"]
    assert browser.run("document.querySelectorAll('img, script:not([type]), script[src]').length") == 0
    assert browser.requests() == []
    assert browser.errors() == []


def test_the_policy_lets_nothing_out(browser, made):
    show(browser, made.page("recurrent"))
    refused = "(async () => { try { await fetch('https://example.org/x'); return 'sent'; } catch { return 'refused'; } })()"
    assert browser.run(refused) == "refused"
    assert any("Content Security Policy" in text.replace("-", " ") for text in browser.errors())  # Firefox 153 hyphenates it
    script = "Object.assign(document.createElement('script'), {textContent: 'globalThis.taken = 1'})"
    browser.run(f"document.body.append({script})")
    assert browser.run("globalThis.taken ?? null") is None
