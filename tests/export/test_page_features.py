"""What can be done on the living page, in a browser: each step is compared with the same done in Python."""

import json
import math

import numpy as np
import pytest
import torch
from export.conftest import BEGINNINGS, REVIEWS, SENTENCES
from export.test_page_in_a_browser import settle, share, show, type_text

import regard
from regard.decoding import greedy
from regard.reweight import StepReweight

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def choose_search(browser, width):
    browser.choose("#search select", width)
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
                    weights[:, slice(None) if head is None else head, row, : len(given)] = torch.tensor(given)
                elif given is not None:
                    weights[:, row] = torch.tensor(given)
            return weights

        return change


def greedy_with_changed_attention(translator, text, edits):
    """Decode greedily in Python with `reweight`: the reference for changes by hand."""
    ids = torch.tensor([[*translator.bundle.parts.source.encode(text).ids, 3]])
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


PLACES = """(() => {
  const at = (one) => { const b = one.getBoundingClientRect(); return [b.x, b.y]; };
  return [at(document.querySelector('.figure')), ...[...document.querySelectorAll('.bands .source .hit')].map(at),
    document.querySelector('.bands .output .hit').getBoundingClientRect().x, scrollY];
})()"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["recurrent", "language"])
def test_a_drag_never_moves_the_figure(chromium, made, name, width):
    browser = chromium
    show(browser, made.page(name), width=width)
    own = browser.text(".result")
    browser.run("document.querySelector('.bands').scrollIntoView({block: 'center'})")
    start = browser.run(
        "(() => { const grip = document.querySelectorAll('.band .grip')[2];"
        "const p = grip.getPointAtLength(24).matrixTransform(grip.getScreenCTM()); return [p.x, p.y]; })()"
    )
    ends = browser.run("[...document.querySelectorAll('.bands .source .hit')].map((one) => one.getBoundingClientRect().y + 9)")
    before, written = browser.run(PLACES), set()
    browser.mouse("mouseMoved", *start)
    browser.mouse("mousePressed", *start)
    for y in [*ends, *reversed(ends)]:
        browser.mouse("mouseMoved", start[0], y, held=True)
        settle(browser)
        written.add(browser.text(".result"))
        assert browser.run(PLACES) == before
    browser.mouse("mouseMoved", start[0], ends[0], held=True)
    browser.mouse("mouseReleased", start[0], ends[0])
    settle(browser)
    assert browser.run(PLACES) == before
    assert len(written | {own}) > 1  # outputs of other lengths were drawn


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_steps_show_candidates_and_go_on_from_another_word(browser, made, name):
    translator = made.load(name)
    show(browser, made.page(name))
    choose_search(browser, 1)
    before = tokens_of(browser)
    browser.click(".step", 2)
    settle(browser)
    names = translator.bundle.parts.target.vocabulary()
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
    forced = translator.bundle.parts.target.decode([one for one in after if one > 3])
    expected = _go_on(translator, SENTENCES[0], after[:3])
    assert after == expected
    assert browser.text(".result") == forced or 1 in after
    assert browser.text(".untouched .text") == translator.translate(SENTENCES[:1], beam_size=1)[0].text
    browser.click(".reset")
    settle(browser)
    assert tokens_of(browser) == before


def _go_on(translator, text, prefix):
    """Decode greedily behind given tokens."""
    ids = torch.tensor([[*translator.bundle.parts.source.encode(text).ids, 3]])
    tokens, model = [2], translator.model
    with torch.inference_mode():
        state = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        while len(tokens) <= 12 and tokens[-1] != 3:
            logits, _, state = model.step(torch.tensor([[tokens[-1]]]), state)
            tokens.append(prefix[len(tokens) - 1] if len(tokens) <= len(prefix) else _best(logits[0, 0]))
    return tokens[1:]


def test_the_time_line_hides_what_comes_later(browser, made):
    show(browser, made.page("recurrent"))
    rows = len(browser.texts(".bands .output text"))
    browser.choose(".slider", 3, "input")
    assert len(browser.texts(".bands .output.later text")) == rows - 4
    assert browser.run("document.querySelector('.bands .output.selected').dataset.row") == "3"


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_dragging_a_band_equals_reweight(browser, made, name):
    translator = made.load(name)
    show(browser, made.page(name))
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
    translator = made.load(name)
    show(browser, made.page(name))
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
    translator = made.load("recurrent")
    show(browser, made.page("recurrent"))
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
    translator = made.load("recurrent")
    show(browser, made.page("recurrent"))
    browser.run("document.querySelector('.forcing').open = true")
    browser.click(".force")
    browser.type("Der alte Mann gibt dem Kind .")
    browser.key("Enter")
    settle(browser)
    [expected] = translator.force(SENTENCES[:1], ["Der alte Mann gibt dem Kind ."])
    assert f"log probability {expected.log_probability:.2f}".replace("-", "−") in browser.text(".facts")
    assert tokens_of(browser) == [*translator.bundle.parts.target.encode("Der alte Mann gibt dem Kind .").ids, 3]
    cross = np.array(browser.run("globalThis.regard.views[0].result.best.path.map((step) => [...step.attention.cross])"))
    assert np.abs(cross - expected.attention.weights["cross"]).max() < 1e-4


def test_words_of_a_text_are_struck_out(browser, made):
    classifier = made.load("reviews")
    show(browser, made.page("reviews"))
    before = browser.texts(".labels .share")
    browser.click(".chip", 1)
    settle(browser)
    [expected] = classifier.classify([REVIEWS[0].replace("honest ", "")])
    assert browser.texts(".labels .name") == list(expected.probabilities)
    assert browser.texts(".labels .share") == [share(one) for one in expected.probabilities.values()]
    assert browser.texts(".chip.dropped") == ["honest"]
    assert "With all words" in browser.text(".untouched")
    browser.click(".reset")
    settle(browser)
    assert browser.texts(".labels .share") == before


def test_layers_and_heads_are_chosen_and_changed(browser, made):
    translator = made.load("transformer")
    show(browser, made.page("transformer"))
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
    show(browser, made.page("recurrent", "other"))
    results = browser.texts(".result")
    for name, text in zip(("recurrent", "other"), results, strict=True):
        assert text == made.load(name).translate(SENTENCES[:1], beam_size=5)[0].text
    assert results[0] != results[1]
    marked = browser.texts(".model:first-child .result .differs")
    words = browser.run("globalThis.regard.views.map((view) => view.result.best.words)")
    assert [word for word in words[0] if word not in words[1]] == [word for word in marked if word not in words[1]]
    assert browser.texts("h2") == ["recurrent", "other"]


def test_the_address_holds_the_view(browser, made):
    show(browser, made.page("transformer"))
    choose_search(browser, 1)
    type_text(browser, "The dog gives the man a red apple & more.")
    browser.click(".bands .source .hit", 1)
    settle(browser)
    browser.click(".bands .output .hit", 0)
    browser.click(".tools button", 1)
    settle(browser)
    kept = browser.text(".result"), tokens_of(browser), edits_of(browser)
    address = browser.run("location.hash")
    show(browser, made.page("transformer"), address=address)
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
    show(browser, made.page("transformer"), address=address)
    assert browser.text(".result")
    assert browser.errors() == []
    assert browser.run("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("name", ["transformer", "reviews", "language"])
def test_json_is_a_record(browser, made, name, tmp_path):
    show(browser, made.page(name))
    record = regard.AttentionRecord.from_json(json.dumps(browser.run("globalThis.regard.views[0].record()")))
    predictor = made.load(name)
    if name == "reviews":
        [expected] = predictor.classify(REVIEWS[:1])
    elif name == "language":
        [[expected]] = predictor.generate(BEGINNINGS[:1], temperature=0, record=predictor.model.sites)
    else:
        [expected] = predictor.translate(SENTENCES[:1], beam_size=5, record=predictor.model.sites)
    expected = expected.attention
    assert (record.source_words, record.target_words) == (expected.source_words, expected.target_words)
    sites = [site for site in expected.weights if not site.startswith("norm")]  # norms of values are not in the graphs
    assert set(record.weights) == set(sites)
    for site in sites:
        weights = expected.weights[site]
        assert np.abs(record.weights[site] - weights).max() < 1e-4, site


def test_pictures_are_saved(browser, made):
    show(browser, made.page("recurrent"))
    for label in ("PNG", "SVG", "JSON"):
        browser.click("#save button", browser.texts("#save button").index(label))
    folder = browser.downloaded(["recurrent.png", "recurrent.svg", "recurrent.json"])
    assert (folder / "recurrent.png").read_bytes().startswith(b"\x89PNG")
    drawn = (folder / "recurrent.svg").read_text()
    for word in [*browser.texts(".bands .source text"), *browser.texts(".matrix td[role]")]:
        assert f">{word}<" in drawn or not word
    assert regard.load_record(folder / "recurrent.json").source_text == SENTENCES[0]
    assert browser.errors() == []


def test_the_picture_of_a_classifier_is_saved(browser, made):
    show(browser, made.page("reviews"))
    for label in ("PNG", "SVG"):
        browser.click("#save button", browser.texts("#save button").index(label))
    folder = browser.downloaded(["reviews.png", "reviews.svg"])
    assert (folder / "reviews.png").read_bytes().startswith(b"\x89PNG")
    drawn = (folder / "reviews.svg").read_text()
    for word in [*browser.texts(".chip"), *browser.texts(".labels .share")]:
        assert f">{word}<" in drawn
    assert browser.errors() == []


def test_the_beam_is_a_tree(browser, made):
    translator = made.load("recurrent")
    show(browser, made.page("recurrent"))
    browser.run("document.querySelector('.tree').open = true")
    browser.wait("document.querySelector('.tree svg')")
    titles = "[...document.querySelectorAll('.tree text.best title')].map((one) => one.textContent.split(' · ')[0])"
    compact, is_long = browser.run(titles), browser.run("globalThis.regard.views[0].result.steps.length > 12")
    browser.run("document.querySelector('.tree .choice input').click()")  # show every token
    if is_long:  # without dropped hypotheses, tokens are joined up to the next branch
        assert len(compact) < len(browser.run(titles))
    [best] = translator.translate(SENTENCES[:1], beam_size=5, n_best=5)
    assert browser.texts(".alternatives .text") == [best.text, *(one.text for one in best.alternatives)]
    shown = browser.run("[...document.querySelectorAll('.tree text.best')].map((one) => one.firstChild.data)")
    path = browser.run(
        "globalThis.regard.views[0].result.best.path.map((s) => globalThis.regard.views[0].model.spell(s.token))"
    )
    assert shown == path
