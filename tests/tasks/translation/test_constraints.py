"""Sampling, prefixes, constraints and minimum risk, from text to text."""

import numpy as np
import pytest
from sacrebleu import BLEU
from sacrebleu import sentence_bleu as library_bleu
from sacrebleu import sentence_chrf as library_chrf

from regard.config import BPEConfig
from regard.decoding import Sampling
from regard.errors import RequestError
from regard.tasks.translation.constraints import TargetConstraints
from regard.tasks.translation.minimum_risk import expected_utilities, sentence_bleu, sentence_chrf
from regard.text.tokenizers.tokenizer import build_tokenizer

LINES = ["one two three .", "", "Anna saw the cat .", "ten !"]


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sampling": Sampling(count=2)}], ids=str)
@pytest.mark.parametrize("kind", ["whitespace", "words", "characters", "bpe"])
def test_translations_begin_with_the_prefix(echo, kind, options):
    translator = echo(kind)
    for result in translator.translate(LINES, prefix="Ben saw", **options):
        for one in (result, *result.alternatives):
            assert one.text.startswith("Ben saw")
    each = translator.translate(LINES, prefix=["", "two", "Anna saw", "Anna saw ."], **options)
    assert each[0].text.replace(" .", ".") == "one two three."
    assert [one.text.startswith(prefix) for one, prefix in zip(each[1:], ("two", "Anna saw", "Anna saw"), strict=True)]
    assert each[2].text.replace(" .", ".") == "Anna saw the cat."


def test_a_prefix_may_end_within_a_word(echo):
    [result] = echo("characters").translate(["Anna saw Ben ."], prefix="An")
    assert result.text == "Anna saw Ben ."


@pytest.mark.parametrize("kind", ["whitespace", "words", "bpe", "unigram"])
def test_unknown_words_of_prefixes_and_constraints_are_kept(echo, kind):
    translator = echo(kind)
    [result] = translator.translate(["Anna saw the cat ."], prefix="Zoltán saw", constraints=[["Xu", "Ben"]], beam_size=6)
    assert result.text.startswith("Zoltán saw")
    assert {"Xu", "Ben"} <= set(result.text.split())
    assert result.attention.target_words[:2] == ("Zoltán", "saw")


def test_an_empty_source_has_no_word_for_an_unknown_one(echo):
    [one] = echo().translate([""], prefix="Zoltán", replace_unknown=True)
    assert one.text == "Zoltán"


@pytest.mark.parametrize("kind", ["whitespace", "words", "characters", "bpe"])
def test_constraints_are_in_the_translation(echo, kind):
    translator = echo(kind)
    wanted = [["Ben"], ["one two", "two"], [], ["cat", "cat", "Anna saw"]]
    for result, words in zip(translator.translate(LINES, constraints=wanted, beam_size=3, n_best=2), wanted, strict=True):
        for one in (result, *result.alternatives):
            for word in words:
                assert one.text.count(word) >= words.count(word), (one.text, words)
    assert translator.translate(LINES, constraints=wanted)[2].text.replace(" .", ".") == "Anna saw the cat."


def test_a_constraint_is_a_word_and_not_the_beginning_of_one(echo):
    """`one` must not be met by a word that goes on."""
    translator = echo("bpe", tokenizer={"size": 60})
    [result] = translator.translate(["Anna saw the cat ."], constraints=[["th"]], beam_size=4)
    assert "th" in result.text.replace(".", " ").split()


@pytest.mark.parametrize(
    ("word", "longer", "size", "continues"),
    [
        ("बाल", "बाली", 12, True),
        ("கல", "கலை", 10, True),
        ("کتاب", "کتاب\u200cها", 15, True),
        ("कमल", "कमल्", 12, True),
        ("ខ្ញុំ", "ខ្ញុំ\u200bទៅ", 16, False),
    ],
)
def test_marks_and_joiners_continue_a_constraint(word, longer, size, continues):
    tokenizer = build_tokenizer([[word] * 9 + [longer]], BPEConfig(size=size, min_count=1))
    continuing = TargetConstraints(1, tokenizer, constraints=[[word]]).take([0]).continues
    ids = tokenizer.encode(word).ids
    after = tokenizer.encode(longer).ids[len(ids)]
    assert tokenizer.encode(longer).ids[: len(ids)] == ids
    assert continuing[after] == continues
    assert not continuing[ids[0]]


def test_a_stream_is_the_same(echo):
    translator, lines = echo(), ["one two three .", "Anna saw Ben .", "ten , nine !"] * 700  # more than a block
    prefixes = ["Ben" if number % 2 else "" for number in range(len(lines))]
    options = {"sampling": Sampling(temperature=9.0, top_k=3, seed=2), "max_length": 4, "record": ()}
    whole = translator.translate(lines, prefix=prefixes, **options)
    parts = list(translator.translate_stream(iter(f"{line}\n" for line in lines), prefix=iter(prefixes), **options))
    assert [one.text for one in whole] == [one.text for one in parts]
    assert len({one.text for one in whole[::3]}) > 50


def test_samples_are_alternatives(echo):
    [result] = echo().translate(["one two ."], sampling=Sampling(count=5, temperature=8.0, seed=1))
    assert len(result.alternatives) == 4
    assert len({one.text for one in (result, *result.alternatives)}) > 1
    assert result.alternatives[0].attention.target_text == result.alternatives[0].text


def test_minimum_risk_worked_by_hand():
    """Two that are alike outvote one that is not; what comes twice counts twice."""
    candidates = ["a cat sat", "a cat sits", "dogs bark now", "a cat sits"]
    gains = expected_utilities(candidates, "chrf")
    by_hand = [np.mean([library_chrf(one, [other]).score for other in candidates]) for one in candidates]
    np.testing.assert_allclose(gains, by_hand)
    assert gains.argmax() == 1


TEXTS = [
    "a cat sat on the mat .",
    "the cat sat on a mat , too",
    "cat",
    "",
    "ä ö ü !",
    "the the the the",
    "a cat sat on the mat .",
]


def test_utilities_are_those_of_the_library():
    for ours, library in ((sentence_chrf, library_chrf), (sentence_bleu, library_bleu)):
        wanted = [[library(one, [other]).score for other in TEXTS] for one in TEXTS]
        np.testing.assert_allclose(ours(TEXTS), wanted, atol=1e-4)


def test_bleu_of_texts_without_spaces_compares_characters():
    texts = ["我们买了书", "我们买了笔", "一二三四五"]
    gains = expected_utilities(texts, "bleu", tokenize=BLEU(tokenize="zh").tokenizer)
    assert gains[0] == gains[1] > gains[2]


def test_minimum_risk_chooses_what_most_agree_on(echo):
    translator = echo()
    options = {"sampling": Sampling(count=12, temperature=7.0, seed=3)}
    [drawn] = translator.translate(["one two three ."], **options)
    [chosen] = translator.translate(["one two three ."], minimum_risk="chrf", **options)
    texts = [one.text for one in (drawn, *drawn.alternatives)]
    gains = expected_utilities(texts, "chrf")
    assert chosen.text == texts[int(gains.argmax())]
    ordered = [one.text for one in (chosen, *chosen.alternatives)]
    assert ordered == [texts[place] for place in np.argsort(-gains, kind="stable")]
    assert chosen.attention.target_text == chosen.text
    assert len(translator.translate(["one ."], beam_size=4, n_best=4, minimum_risk="bleu")[0].alternatives) == 3


def test_score_is_force_without_attention(echo):
    translator = echo()
    sources, targets = ["one two .", "one two .", ""], ["one two .", "two one .", ""]
    for one, other in zip(translator.score(sources, targets), translator.force(sources, targets), strict=True):
        assert (one.source, one.text) == (other.source, other.text)
        assert one.log_probability == pytest.approx(other.log_probability)
        assert one.score == pytest.approx(other.score)
        assert one.num_tokens == len(one.text.split()) + 1
        assert one.token_log_probabilities.sum() == pytest.approx(one.log_probability)
    assert translator.model.recorded[0] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": ["one"]}, "translate: got 2 texts, but the length of prefix is 1; expected one item for each text"),
        ({"prefix": []}, "translate: got 2 texts, but the length of prefix is 0"),
        ({"constraints": []}, "translate: got 2 texts, but the length of constraints is 0"),
        ({"constraints": [["one"]]}, "translate: got 2 texts, but the length of constraints is 1"),
        ({"constraints": ["one", "two"]}, r"constraints: got 'one', expected a list of phrases for each text"),
        ({"constraints": [["one"], [" "]]}, "translate: a constraint of text 2 is empty"),
        (
            {"sampling": Sampling(), "beam_size": 3},
            "samples are drawn instead of a search; leave out beam_size and n_best",
        ),
        ({"sampling": Sampling(), "constraints": [["one"], []]}, "sampling does not support phrases that targets must contain"),
        ({"minimum_risk": "ter", "n_best": 2}, "translate: minimum_risk is 'ter', expected chrf or bleu"),
        ({"minimum_risk": "chrf"}, "among several translations; draw 32 samples, or set n_best to 8"),
    ],
)
def test_wrong_requests(echo, options, message):
    with pytest.raises(RequestError, match=message):
        echo().translate(["one", "two"], **options)
