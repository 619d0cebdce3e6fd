"""Evaluations of results: they need predictions and references, and no model."""

import math
import sys

import numpy as np
import pytest

from regard.config import DecodingConfig
from regard.errors import DataError, RequestError
from regard.evaluation.labelled import evaluate_labels
from regard.evaluation.rouge import rouge
from regard.evaluation.words import build_metrics, edit_distance, evaluate_language, evaluate_translations
from regard.text.labelled.labels import Labels


def test_translations_against_references():
    translations, references = ["the cat sat on the mat", "a dog"], ["the cat sat on a mat", "a dog runs"]
    found = evaluate_translations(
        translations,
        references,
        log_probability=-12.0,
        num_tokens=8,
        metrics=build_metrics("none", lowercase=False),
        decoding=DecodingConfig(beam_size=3),
    )
    # By hand: of n-grams of 1 to 4 words match 7 of 8, 4 of 6, 2 of 4, 1 of 3; 8 words for 9.
    precision = (7 / 8 * 4 / 6 * 2 / 4 * 1 / 3) ** 0.25
    assert found.bleu == pytest.approx(100 * precision * math.exp(1 - 9 / 8))
    assert (found.loss, found.perplexity) == (1.5, math.exp(1.5))
    assert (found.length_ratio, found.pairs, found.beam_size) == (8 / 9, 2, 3)
    assert "tok:none" in found.bleu_signature
    assert "beam 3" in found.render()


def test_rouge_by_hand():
    """F1 of words, of pairs of words, and of the longest common subsequence; case and punctuation do not count."""
    texts, references = ["Die Häuser: grün!", "one two three", ""], ["die häuser sind grün", "three one two", "x"]
    found = rouge(texts, references, str)
    pairs = 2 * 1 / 2 * 1 / 3 / (1 / 2 + 1 / 3), 1 / 2
    longest = 2 * 1 * 3 / 4 / (1 + 3 / 4), 2 / 3
    assert found == pytest.approx(
        {
            "rouge1": 100 * (longest[0] + 1) / 3,
            "rouge2": 100 * sum(pairs) / 3,
            "rougeL": 100 * sum(longest) / 3,
        },
        rel=1e-5,
    )
    scores = {"log_probability": -1.0, "num_tokens": 1, "metrics": build_metrics("13a", lowercase=False)}
    found = evaluate_translations(texts, references, **scores, decoding=DecodingConfig(), with_rouge=True)
    assert f"ROUGE      {found.rouge1:.2f} / {found.rouge2:.2f} / {found.rougeL:.2f}" in found.render()


@pytest.mark.parametrize(
    ("text", "reference", "found"),
    [("की", "का", 0), ("ก็ดี", "กี่ด", 0), ("cafe\u0301", "caf\u00e9", 100), ("يَد", "يَد", 100), ("snake_case", "snake case", 100)],
)
def test_rouge_of_words_with_marks(text, reference, found):
    assert rouge([text], [reference], str)["rouge1"] == pytest.approx(found)


def test_rouge_without_torchmetrics(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics.functional.text.rouge", None)
    with pytest.raises(RequestError, match=r"ROUGE needs torchmetrics, which is not installed: pip install 'regard\[rouge\]"):
        rouge(["a"], ["b"], str)


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [
        ("kitten", "sitting", 3),
        ("", "abc", 3),
        ("abc", "", 3),
        ("ab", "ba", 2),
        ("flaw", "lawn", 2),
        ("a", "a", 0),
        ("", "", 0),
    ],
)
def test_edit_distance(first, second, edits):
    assert edit_distance(first, second) == edit_distance(second, first) == edits


@pytest.mark.parametrize(
    ("translations", "references", "exact", "characters", "words"),
    [
        (["K AE T", "D AO G  Z"], ["K AA T", "D AO G Z"], 1 / 2, 1 / 14, 1 / 7),  # phonemes
        (["cats", "dog"], ["cat", "dog"], 1 / 2, 1 / 6, 1 / 2),
        (["Cats"], ["cats"], 1.0, 0.0, 0.0),  # the model writes in lower case
    ],
)
def test_exact_match_and_error_rates(translations, references, exact, characters, words):
    found = evaluate_translations(
        translations,
        references,
        log_probability=-1.0,
        num_tokens=1,
        metrics=build_metrics("13a", lowercase=translations == ["Cats"]),
        decoding=DecodingConfig(),
    )
    rates = (found.exact_match, found.character_error_rate, found.word_error_rate)
    assert rates == pytest.approx((exact, characters, words))
    assert f"exact      {exact:.2%}" in found.render()
    assert f"{characters:.2%} of characters, {words:.2%} of words" in found.render()


@pytest.mark.parametrize(
    ("translations", "warns"), [(["cats", "dogs"], True), (["xyz", "q"], False), (["a b c d", "x"], False)]
)
def test_a_bleu_of_zero_is_explained(translations, warns):
    found = evaluate_translations(
        translations,
        ["cats" if warns else "a b c d", "dog"],
        log_probability=-1.0,
        num_tokens=1,
        metrics=build_metrics("13a", lowercase=False),
        decoding=DecodingConfig(),
    )
    assert ("warning: BLEU is 0 although chrF is " in found.render()) == warns == (found.bleu == 0 < found.chrf)


def test_case_is_ignored_where_the_model_writes_in_lower_case():
    for lowercase, score in ((True, 100.0), (False, 0.0)):
        bleu, _ = build_metrics("13a", lowercase=lowercase)
        assert bleu.corpus_score(["the cat sat there"], [["THE CAT SAT THERE"]]).score == pytest.approx(score, abs=1e-6)


def test_labels_of_one_kind():
    logits = np.array([[2.0, 0.0], [0.0, 4.0], [0.0, 2.0]])
    found = evaluate_labels(logits, np.array([0, 0, 1]), ["a", "b", "c"], ["no", "yes"], temperature=2.0)
    expected = -np.log([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(2)), 1 / (1 + math.exp(-1))]).mean()
    assert found.loss == pytest.approx(expected)
    assert found.accuracy == pytest.approx(2 / 3)
    assert [(each.text, each.label, each.predicted) for each in found.mistakes] == [("b", "no", "yes")]
    assert found.mistakes[0].probability == pytest.approx(1 / (1 + math.exp(-2)))
    assert found.majority.share == pytest.approx(2 / 3)


def test_several_labels():
    logits = np.array([[3.0, -3.0], [3.0, 3.0]])
    found = evaluate_labels(logits, np.array([[1, 0], [0, 1]]), ["a", "b"], ["red", "big"])
    assert found.accuracy == 0.5
    assert [(each.text, each.label, each.predicted) for each in found.mistakes] == [("b", "big", "red, big")]


def test_a_language_model():
    found = evaluate_language(["to be", "or"], log_probability=-10.0, num_tokens=5, num_unknown=1)
    assert (found.loss, found.perplexity) == (2.0, math.exp(2.0))
    assert found.word_perplexity == pytest.approx(math.exp(10 / 5))  # 3 words, 2 ends
    assert found.bits_per_character == pytest.approx(10 / math.log(2) / 9)  # 7 characters, 2 ends
    assert "1 of them unknown to the model" in found.render()
    found = evaluate_language(["very_long_word_" * 9], log_probability=-200.0, num_tokens=50, num_unknown=0)
    assert "(per token; 2.69e+43 per word)" in found.render()


def test_labels_become_numbers():
    one, several = Labels(("no", "yes"), False, (1, 1)), Labels(("no", "yes"), True, (1, 1))
    assert one.encode(["yes", ["no"]]).tolist() == [1, 0]
    assert several.encode([["yes", "no"], [], "yes"]).tolist() == [[1, 1], [0, 0], [0, 1]]
    numbers = Labels(("0", "1", "true"), True, (1, 1, 1))
    assert numbers.encode([0, [0, 1.0], np.array([1]), True]).tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]
    with pytest.raises(DataError, match=r"^text 2 has 2 labels, but this model was trained on texts with one each$"):
        one.encode(["yes", ["no", "yes"]])
    with pytest.raises(DataError, match=r"^text 1: label 'yess' is unknown; the model knows 'no', 'yes'; did you mean 'yes'"):
        one.encode(["yess"])
