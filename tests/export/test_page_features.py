"""What can be done on the living page, in a browser: each step is compared with the same done in Python."""

import json
import math

import numpy as np
import pytest
import torch
from browser import CHROMIUM, Browser
from export.page_models import RECURRENT, TRANSFORMER, make_classifier, make_translator
from export.test_page_in_a_browser import settle, share, show, type_text

import regard
from regard.decoding import greedy
from regard.export.page import write_page
from regard.reweight import StepReweight

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome is installed")]

SENTENCES = ["The old man gives the child a red apple.", "We have not seen the dog today."]
REVIEW = "an honest film , but the ending is dull ."


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with runs and a page of each, and one of two models."""
    folder = tmp_path_factory.mktemp("made")
    runs = {
        "recurrent": make_translator(folder / "recurrent"),
        "other": make_translator(folder / "other", RECURRENT | {"embedding_size": 14}),
        "transformer": make_translator(folder / "transformer", TRANSFORMER, noise=0.8),
        "reviews": make_classifier(folder / "reviews", "words"),
    }
    for name, run in runs.items():
        write_page(run, folder / f"{name}.html", examples=[REVIEW] if name == "reviews" else SENTENCES)
    write_page([runs["recurrent"], runs["other"]], folder / "two.html", examples=SENTENCES)
    return folder


def choose_search(browser, width):
    browser.run(f"const s = document.querySelector('#search select'); s.value = {width}; s.dispatchEvent(new Event('change'))")
    settle(browser)


def tokens_of(browser):
    return browser.run("globalThis.regard.views[0].result.best.path.map((step) => step.token)")


def edits_of(browser):
    found = browser.run("[...globalThis.regard.views[0].edits].map(([step, e]) => [step, [...e.weights], e.layer, e.head])")
    return {step: (weights, layer, head) for step, weights, layer, head in found}


class Given(StepReweight):
    """The weights of some steps as given, for one head or all."""

    def __init__(self, edits):
        self.edits = edits

    def at(self, steps):
        def change(weights, mask):
            weights = weights.clone()
            for row in range(weights.shape[-2]):
                given, _, head = self.edits.get(int(steps[row if len(steps) > 1 else 0]), (None, None, None))
                if given is not None and weights.ndim == 4:
                    weights[:, slice(None) if head is None else head, row] = torch.tensor(given)
                elif given is not None:
                    weights[:, row] = torch.tensor(given)
            return weights

        return change


def greedy_with_changed_attention(translator, text, edits):
    """Decode greedily in Python with `reweight`: the reference for changes by hand."""
    ids = torch.tensor([[*translator.bundle.source_tokenizer.encode(text).ids, 3]])
    [layer] = {layer for _, layer, _ in edits.values()} or {None}
    reweight = {"cross" if layer is None else f"cross.{layer}": Given(edits)} if edits else None
    [found] = greedy(translator.model, ids, torch.ones_like(ids, dtype=torch.bool), max_length=12, reweight=reweight)
    return [*found.tokens, 3] if found.finished else found.tokens


def _best(logits):
    logits[[0, 2]] = -torch.inf
    return int(logits.argmax())


def move_band(browser, row, column, to):
    """Drag the end of a band at the source to another word."""
    start, end = browser.run(
        "(() => { const centre = (q) => { const b = document.querySelector(q).getBoundingClientRect();"
        "return [b.right - 2, b.y + b.height / 2]; };"
        "document.querySelector('.bands').scrollIntoView({block: 'center'});"
        f'const grip = document.querySelector(\'.band[data-row="{row}"][data-column="{column}"] .grip\');'
        "const p = grip.getPointAtLength(24).matrixTransform(grip.getScreenCTM());"
        f"return [[p.x, p.y], centre('.source[data-column=\"{to}\"] .hit')]; }})()"
    )
    browser.drag(start, end)
    settle(browser)


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_steps_show_candidates_and_go_on_from_another_word(browser, made, name):
    translator = regard.load(made / name, device="cpu")
    show(browser, made / f"{name}.html")
    choose_search(browser, 1)
    before = tokens_of(browser)
    browser.click(".step", 2)
    settle(browser)
    names = translator.bundle.target_tokenizer.vocabulary()
    shown = browser.run("[...document.querySelectorAll('.candidate .share')].map((one) => one.textContent)")
    candidates = browser.run("globalThis.regard.views[0].result.best.path[2].candidates.slice(0, 8)")
    assert shown == [share(math.exp(one["logProbability"])) for one in candidates]
    spelled = [names[one["token"]].replace("▁", "␣") if one["token"] != 3 else "end" for one in candidates]
    assert browser.texts(".candidate .name") == spelled
    assert browser.run("document.querySelector('.step[aria-current]').dataset.key") == "step-2"
    place = next(number for number, one in enumerate(candidates) if one["token"] not in (before[2], 3, 1))
    browser.click(".candidate", place)
    settle(browser)
    after = tokens_of(browser)
    assert after[:3] == [*before[:2], candidates[place]["token"]]
    forced = translator.bundle.target_tokenizer.decode([one for one in after if one > 3])
    expected = _go_on(translator, SENTENCES[0], after[:3])
    assert after == expected
    assert browser.text(".result") == forced or 1 in after
    assert browser.text(".untouched .text") == translator.translate(SENTENCES[:1], beam_size=1)[0].text
    browser.click(".reset")
    settle(browser)
    assert tokens_of(browser) == before


def _go_on(translator, text, prefix):
    """Decode greedily behind given tokens."""
    ids = torch.tensor([[*translator.bundle.source_tokenizer.encode(text).ids, 3]])
    tokens, model = [2], translator.model
    with torch.inference_mode():
        state = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        while len(tokens) <= 12 and tokens[-1] != 3:
            logits, _, state = model.step(torch.tensor([[tokens[-1]]]), state)
            tokens.append(prefix[len(tokens) - 1] if len(tokens) <= len(prefix) else _best(logits[0, 0]))
    return tokens[1:]


def test_the_time_line_hides_what_comes_later(browser, made):
    show(browser, made / "recurrent.html")
    rows = len(browser.texts(".bands .output text"))
    browser.run("const s = document.querySelector('.slider'); s.value = 3; s.dispatchEvent(new Event('input'))")
    assert len(browser.texts(".bands .output.later text")) == rows - 4
    assert browser.run("document.querySelector('.bands .output.selected').dataset.row") == "3"


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_dragging_a_band_equals_reweight(browser, made, name):
    translator = regard.load(made / name, device="cpu")
    show(browser, made / f"{name}.html")
    choose_search(browser, 1)
    untouched, tokens = browser.text(".result"), tokens_of(browser)
    changed = 0
    for row in range(min(3, len(browser.texts(".bands .output text")))):
        column = browser.run(f"Number(document.querySelector('.band[data-row=\"{row}\"]').dataset.column)")
        move_band(browser, row, column, 7 if column < 4 else 0)
        edits = edits_of(browser)
        assert edits
        assert tokens_of(browser) == greedy_with_changed_attention(translator, SENTENCES[0], edits)
        changed += tokens_of(browser) != tokens
        assert browser.run("document.querySelectorAll('.bands .output.edited').length") >= 1
        if tokens_of(browser) != tokens:
            assert browser.text(".untouched .text") == untouched
            assert browser.texts(".result .changed") != []
        browser.click(".reset")
        settle(browser)
        assert browser.text(".result") == untouched
        assert edits_of(browser) == {}
    assert changed, "no drag changed the output, so the test shows nothing"


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_buttons_and_keys_change_a_row(browser, made, name):
    translator = regard.load(made / name, device="cpu")
    show(browser, made / f"{name}.html")
    choose_search(browser, 1)
    tokens = tokens_of(browser)
    browser.click(".bands .output .hit", 0)
    settle(browser)
    own = browser.run("[...globalThis.regard.views[0].result.best.path[0].attention.cross]")
    expected = {
        "Sharpen": lambda w: w**2 / (w**2).sum(),
        "Flatten": lambda w: w * 0 + 1 / len(w),
        "Erase": lambda w: w * 0,
    }
    for number, (label, change) in enumerate(expected.items(), 1):
        browser.click(".tools button", number - 1)
        settle(browser)
        edits = edits_of(browser)
        if label != "Erase":
            assert edits[0][0] == pytest.approx(change(np.array(own)), abs=1e-3)
        else:
            assert not any(map(any, (weights for weights, _, _ in edits.values())))
        assert tokens_of(browser) == greedy_with_changed_attention(translator, SENTENCES[0], edits)
    browser.run("globalThis.regard.views[0].resetAll()")
    settle(browser)
    assert tokens_of(browser) == tokens
    browser.run("document.querySelectorAll('.matrix td[role]')[2].focus()")
    browser.key("Enter")
    settle(browser)
    assert tokens_of(browser) == greedy_with_changed_attention(translator, SENTENCES[0], edits_of(browser))
    word_of = browser.run("globalThis.regard.views[0].result.source.wordOf")
    for weights, _, _ in edits_of(browser).values():
        assert {word for word, weight in zip(word_of, weights, strict=True) if weight} == {2}
    browser.run("globalThis.regard.views[0].resetAll()")
    settle(browser)
    browser.run("document.querySelectorAll('.bands .output')[0].focus()")
    browser.key("e")
    settle(browser)
    assert 0 in edits_of(browser)
    assert browser.run("document.activeElement.dataset.key") == "output-0"


def test_a_word_that_is_left_out_is_not_read(browser, made):
    translator = regard.load(made / "recurrent", device="cpu")
    show(browser, made / "recurrent.html")
    untouched = browser.text(".result")
    browser.click(".bands .source .hit", 2)
    settle(browser)
    [expected] = translator.translate(["The old gives the child a red apple."], beam_size=5)
    assert browser.text(".result") == expected.text
    assert browser.texts(".bands .source.dropped text") == ["man"]
    assert browser.run("document.querySelectorAll('.bands .source')[2].getAttribute('aria-pressed')") == "true"
    browser.click(".bands .source .hit", 2)
    settle(browser)
    assert browser.text(".result") == untouched


def test_a_target_is_forced(browser, made):
    translator = regard.load(made / "recurrent", device="cpu")
    show(browser, made / "recurrent.html")
    browser.run("document.querySelector('.forcing').open = true")
    browser.click(".force")
    browser.type("Der alte Mann gibt dem Kind .")
    browser.key("Enter")
    settle(browser)
    [expected] = translator.force(SENTENCES[:1], ["Der alte Mann gibt dem Kind ."])
    assert f"log probability {expected.log_probability:.2f}" in browser.text(".facts")
    assert tokens_of(browser) == [*translator.bundle.target_tokenizer.encode("Der alte Mann gibt dem Kind .").ids, 3]
    cross = np.array(browser.run("globalThis.regard.views[0].result.best.path.map((step) => [...step.attention.cross])"))
    assert np.abs(cross - expected.attention.weights["cross"]).max() < 1e-4


def test_words_of_a_text_are_struck_out(browser, made):
    classifier = regard.load(made / "reviews", device="cpu")
    show(browser, made / "reviews.html")
    before = browser.texts(".labels .share")
    browser.click(".chip", 1)
    settle(browser)
    [expected] = classifier.classify([REVIEW.replace("honest ", "")])
    assert browser.texts(".labels .name") == list(expected.probabilities)
    assert browser.texts(".labels .share") == [share(one) for one in expected.probabilities.values()]
    assert browser.texts(".chip.dropped") == ["honest"]
    assert "With all words" in browser.text(".untouched")
    browser.click(".reset")
    settle(browser)
    assert browser.texts(".labels .share") == before


def test_layers_and_heads_are_chosen_and_changed(browser, made):
    translator = regard.load(made / "transformer", device="cpu")
    show(browser, made / "transformer.html")
    choose_search(browser, 1)
    [result] = translator.translate(SENTENCES[:1], beam_size=1, record=translator.model.sites)
    browser.run("document.querySelector('.heads').open = true")
    browser.wait("document.querySelectorAll('.head').length === 1 + 2 * 5")
    browser.click(".head", 1 + 5 + 3)  # layer 2, head 3
    assert browser.run("document.querySelectorAll('.head')[9].ariaPressed") == "true"
    view = result.attention.view("cross.1", 2)
    shown = browser.run("[...document.querySelectorAll('.matrix td[role]')].map((one) => one.ariaLabel.split(': ')[1])")
    close = sum(one == share(weight) for one, weight in zip(shown, view.matrix.flatten(), strict=True))
    assert close >= view.matrix.size - 1
    browser.click(".bands .output .hit", 0)
    settle(browser)
    browser.click(".tools button", 2)
    settle(browser)
    edits = edits_of(browser)
    assert {(layer, head) for _, layer, head in edits.values()} == {(1, 2)}
    assert tokens_of(browser) == greedy_with_changed_attention(translator, SENTENCES[0], edits)


def test_two_models_are_compared(browser, made):
    show(browser, made / "two.html")
    results = browser.texts(".result")
    for name, text in zip(("recurrent", "other"), results, strict=True):
        assert text == regard.load(made / name, device="cpu").translate(SENTENCES[:1], beam_size=5)[0].text
    assert results[0] != results[1]
    marked = browser.texts(".model:first-child .result .differs")
    words = browser.run("globalThis.regard.views.map((view) => view.result.best.words)")
    assert [word for word in words[0] if word not in words[1]] == [word for word in marked if word not in words[1]]
    assert browser.texts("h2") == ["recurrent", "other"]


def test_the_address_holds_the_view(browser, made):
    show(browser, made / "transformer.html")
    choose_search(browser, 1)
    type_text(browser, "The dog gives the man a red apple & more.")
    browser.click(".bands .source .hit", 1)
    settle(browser)
    browser.click(".bands .output .hit", 0)
    browser.click(".tools button", 1)
    settle(browser)
    kept = browser.text(".result"), tokens_of(browser), edits_of(browser)
    address = browser.run("location.hash")
    show(browser, made / "transformer.html", address=address)
    assert (browser.text(".result"), tokens_of(browser), edits_of(browser)) == kept
    assert browser.run("document.querySelector('#text').value") == "The dog gives the man a red apple & more."
    assert len(browser.texts(".bands .source.dropped text")) == 1
    assert browser.run("document.querySelector('.bands .output.selected').dataset.row") == "0"


@pytest.mark.parametrize(
    "address",
    [
        "#t=The+dog.&e0=0:9:9:1,2;x:::;5::",
        "#t=The+dog.&p0=0,2,999999,x&d=99&b=-3&k0=999&s0=7.7",
        "#t=%3Cimg+src=x%3E&b=1e9",
        "#%%%",
    ],
)
def test_an_address_that_makes_no_sense_does_no_harm(browser, made, address):
    show(browser, made / "transformer.html", address=address)
    assert browser.text(".result")
    assert browser.errors() == []
    assert browser.run("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("name", ["transformer", "reviews"])
def test_json_is_a_record(browser, made, name, tmp_path):
    show(browser, made / f"{name}.html")
    record = regard.AttentionRecord.from_json(json.dumps(browser.run("globalThis.regard.views[0].record()")))
    predictor = regard.load(made / name, device="cpu")
    if name == "reviews":
        [expected] = predictor.classify([REVIEW])
    else:
        [expected] = predictor.translate(SENTENCES[:1], beam_size=5, record=predictor.model.sites)
    expected = expected.attention
    assert (record.source_words, record.target_words) == (expected.source_words, expected.target_words)
    sites = [site for site in expected.weights if not site.startswith("norm")]  # norms of values are not in the graphs
    assert set(record.weights) == set(sites)
    for site in sites:
        weights = expected.weights[site]
        assert np.abs(record.weights[site] - weights).max() < 1e-4, site


def test_pictures_are_saved(browser, made, tmp_path):
    show(browser, made / "recurrent.html")
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for label in ("PNG", "SVG", "JSON"):
        place = browser.texts("#save button").index(label)
        browser.click("#save button", place)
    wanted = {"recurrent.png", "recurrent.svg", "recurrent.json"}
    browser.wait("true")
    for _ in range(200):
        if wanted <= {path.name for path in tmp_path.iterdir()}:
            break
        browser.run("new Promise((resolve) => setTimeout(resolve, 50))")
    assert wanted == {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "recurrent.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "recurrent.svg").read_text()
    for word in browser.texts(".bands .source text"):
        assert f">{word}<" in drawn
    assert browser.errors() == []


def test_the_beam_is_a_tree(browser, made):
    translator = regard.load(made / "recurrent", device="cpu")
    show(browser, made / "recurrent.html")
    browser.run("document.querySelector('.tree').open = true")
    browser.wait("document.querySelector('.tree svg')")
    [best] = translator.translate(SENTENCES[:1], beam_size=5, n_best=5)
    assert browser.texts(".alternatives .text") == [best.text, *(one.text for one in best.alternatives)]
    shown = browser.run("[...document.querySelectorAll('.tree text.best')].map((one) => one.firstChild.data)")
    path = browser.run(
        "globalThis.regard.views[0].result.best.path.map((s) => globalThis.regard.views[0].model.spell(s.token))"
    )
    assert shown == path


@pytest.mark.parametrize("width", [390, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_runs_out_of_the_page(browser, made, width, dark):
    for name in ("recurrent", "reviews", "two"):
        show(browser, made / f"{name}.html", width=width, dark=dark)
        assert browser.run("document.documentElement.scrollWidth") <= width, name
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, paper.strip("rgb()").split(", "))) < 300) == dark


def test_everything_that_acts_has_a_name_and_a_role(browser, made):
    for name in ("transformer", "reviews"):
        show(browser, made / f"{name}.html")
        browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.run("new Promise((resolve) => setTimeout(resolve, 100))")
        browser.call("Accessibility.enable")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        nameless = [
            node["role"]["value"]
            for node in nodes
            if not node.get("ignored")
            and node["role"]["value"] in ("button", "textbox", "combobox", "slider", "grid", "gridcell", "image")
            and not node.get("name", {}).get("value")
        ]
        assert [role for role in nameless if role != "gridcell"] == []
        assert browser.run("document.documentElement.lang") == "en"
        assert "Attention weights do not prove which words the model's output depends on." in browser.text("#honest")
