"""A language model on the living page: type a beginning, pick next words, and see and change what each step reads."""

import math

import pytest
import torch
from export.conftest import BEGINNINGS
from export.test_page_features import Given, edits_of, tokens_of
from export.test_page_in_a_browser import settle, share, show, type_text

from regard.decoding import Guidance, greedy

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_language_model_goes_on_with_what_is_typed(browser, made):
    model = made.load("language")
    show(browser, made.page("language"))
    assert browser.texts(".example") == BEGINNINGS
    assert browser.run("document.querySelector('#search select').selectedOptions[0].textContent") == "greedy"
    [[expected]] = model.generate(BEGINNINGS[:1], temperature=0)
    assert browser.text(".result") == expected.text
    assert " ".join(browser.texts(".result .typed")) == BEGINNINGS[0]
    type_text(browser, "The red zzz")
    [[expected]] = model.generate(["The red zzz"], temperature=0)
    assert browser.text(".result") == expected.text
    type_text(browser, "word " * 70)
    assert "this model reads at most 60. Shorten it." in browser.text(".message")
    type_text(browser, "")
    [[expected]] = model.generate([""], temperature=0)
    assert browser.text(".result") == expected.text.strip()
    assert browser.requests() == []
    assert browser.errors() == []


def test_a_language_model_shows_candidates_and_goes_on_from_another(browser, made):
    model = made.load("language")
    show(browser, made.page("language"))
    before, given = tokens_of(browser), len(model.tokenizer.encode(BEGINNINGS[0]).ids)
    assert browser.run("document.querySelector('.step[aria-current]').dataset.key") == f"step-{given}"  # its first own word
    [scored] = model.score([model.tokenizer.decode(before)])
    assert browser.run("globalThis.regard.views[0].result.best.path[0].logProbability") == pytest.approx(
        float(scored.token_log_probabilities[0]), abs=1e-4
    )
    candidates = browser.run(f"globalThis.regard.views[0].result.best.path[{given}].candidates.slice(0, 8)")
    assert browser.texts(".candidate .share") == [share(math.exp(one["logProbability"])) for one in candidates]
    place = next(number for number, one in enumerate(candidates) if one["token"] not in (before[given], 3, 1))
    untouched = browser.text(".result")
    browser.click(".candidate", place)
    settle(browser)
    prefix = [*before[:given], candidates[place]["token"]]
    assert tokens_of(browser) == _write_on(model, prefix, len(prefix) + 10)
    assert browser.text(".untouched .text") == untouched
    browser.click(".reset")
    settle(browser)
    assert tokens_of(browser) == before


def _write_on(model, prefix, limit, edits=None):
    """Go on greedily behind given tokens, in Python."""
    source = torch.tensor([[3]])
    [layer] = {layer for _, layer, _ in (edits or {}).values()} or {None}
    reweight = {"decoder" if layer is None else f"decoder.{layer}": Given(edits)} if edits else None
    guidance = Guidance(prefixes=[prefix], phrases=[()])
    options = {"max_length": limit, "guidance": guidance, "reweight": reweight}
    [found] = greedy(model.model, source, torch.ones_like(source, dtype=torch.bool), **options)
    return [*found.tokens, 3] if found.finished else found.tokens


@pytest.mark.parametrize("place", [None, 1 + 5 + 2])
def test_changing_what_a_language_model_reads_equals_reweight(browser, made, place):
    model = made.load("language")
    show(browser, made.page("language"))
    prompt = model.tokenizer.encode(BEGINNINGS[0]).ids
    untouched, changed = tokens_of(browser), 0
    if place is not None:
        browser.run("(document.querySelector('.heads').open = true)")
        browser.wait("document.querySelectorAll('.head').length === 1 + 2 * 5")
        browser.click(".head", place)  # layer 2, head 2
    for key in ("Enter", "f", "e"):
        for row in (3, 4, 5):
            browser.run(f"document.querySelector('[data-key=\"cell-{row}-0\"]').focus()")
            browser.key(key)
            settle(browser)
        edits = edits_of(browser)
        assert edits
        assert {(layer, head) for _, layer, head in edits.values()} == {(None, None) if place is None else (1, 1)}
        assert all(len(weights) == step + 1 for step, (weights, _, _) in edits.items())
        assert tokens_of(browser) == _write_on(model, prompt, len(prompt) + 10, edits)
        changed += tokens_of(browser) != untouched
        browser.click(".reset")
        settle(browser)
    assert changed, "no change of the attention changed the text, so the test shows nothing"


def test_a_language_model_reads_only_what_is_there(browser, made):
    show(browser, made.page("language"))
    rows = len(browser.texts(".matrix tbody th"))
    never = browser.run("[...document.querySelectorAll('.matrix td.never')].map((one) => one.dataset.key)")
    columns = len(browser.texts(".matrix thead th span"))
    assert never == [f"cell-{row}-{column}" for row in range(rows) for column in range(row, columns)]
    browser.run("document.querySelector('[data-key=\"cell-1-3\"]').focus()")
    browser.key("Enter")  # the second word cannot read the fourth
    settle(browser)
    assert edits_of(browser) == {}
