"""Translating while words arrive: never later, and never other words, than with the whole sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
import yaml

from regard.config.loading import load_config
from regard.errors import RequestError
from regard.models.build import build_translator
from regard.task import Bundle
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.predict import Translator
from regard.text.tokenizers.tokenizer import build_tokenizers

TEXTS = [
    "the quick brown fox jumps over 12 lazy dogs .",
    "a well-known man says: “Stop!” and goes .",
    "the fox is quick , isn't it ?",
]
SENTENCES = [*TEXTS[1:], "the man goes", ""]
SIZES = ("hidden_size: 20", "num_heads: 2", "feed_forward_size: 20", "encoder_layers: 1", "decoder_layers: 2")
TRANSFORMER = ("transformer", *SIZES, "wait_k: 3")
RECURRENT = ("recurrent", "embedding_size: 16", "encoder: {bidirectional: false, hidden_size: 16}")
COVERAGE = (*RECURRENT, "decoder: {kind: bahdanau, hidden_size: 16, attention: {kind: coverage}}", "wait_k: 2")
MOCHA = (*RECURRENT, "bridge: zeros", "decoder: {kind: luong, hidden_size: 16, attention: {kind: mocha}}")


def make(model: tuple[str, ...], kind: str = "bpe", **decoding: object) -> Translator:
    tokenizer = {"kind": kind} | ({"size": 60} if kind == "bpe" else {})
    layer = {
        "task": "translation",
        "data": {"source": "en", "target": "en"},
        "tokenizers": {"joint": True, "source": tokenizer, "target": tokenizer},
        "decoding": {"beam_size": 1, **decoding},
    }
    config = load_config(layer, {"model": yaml.safe_load(f"{{kind: {', '.join(model)}}}")})
    both, _ = build_tokenizers([[TEXTS, TEXTS]], config.tokenizers, config.data)
    torch.manual_seed(1)
    built = build_translator(config.model, source_size=both.size, target_size=both.size).eval()
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if "offset" not in name:
                parameter.mul_(4)
    return Translator(Bundle(config=config, model=built, parts=Tokenizers(both, both)))


@pytest.mark.parametrize(
    ("model", "kind"),
    [(TRANSFORMER, "bpe"), (COVERAGE, "words"), (MOCHA, "characters"), (MOCHA, "words")],
    ids=["transformer", "coverage", "mocha-characters", "mocha"],
)
def test_the_words_are_those_of_the_whole_sentence(model, kind):
    translator = make(model, kind)
    whole = translator.translate(SENTENCES, record=(), max_length=8)
    assert len({one.text for one in whole}) == 4
    for sentence, one in zip(SENTENCES, whole, strict=True):
        parts: list[str] = []
        found = translator.translate_live(iter(sentence.split()), parts.append, max_length=8)
        assert found == one.text
        assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", found)


def test_a_translation_that_does_not_end_is_cut_where_that_of_the_whole_sentence_is():
    translator = make(TRANSFORMER, "words")
    with torch.no_grad():
        translator.model.output.weight[3] = 0
    [whole] = translator.translate(["the fox"], record=())
    assert (whole.num_tokens, whole.finished) == (2 * 3 + 20, False)
    assert translator.translate_live(["the", "fox"]) == whole.text


def test_words_are_written_while_words_arrive():
    """Wait-3 with a token for each word: word t is chosen when word t + 2 has arrived, and written when word t + 1 begins."""
    translator = make(TRANSFORMER, "words", min_length=8, no_repeat_ngrams=1, suppress_unknown=True)
    events: list[str] = []

    def words() -> Iterator[str]:
        for number, word in enumerate(["the", "quick", "brown", "fox", "jumps", "over"], 1):
            events.append(f"read {number}")
            yield word
        events.append("end")

    translator.translate_live(words(), lambda part: events.append("write"), max_length=9)
    read = [f"read {number}" for number in range(1, 7)]
    assert events[:11] == [*read[:4], "write", read[4], "write", read[5], "write", "end", "write"]
    assert set(events[11:]) == {"write"}


def test_unknown_words_are_replaced():
    translator = make(TRANSFORMER, "words", replace_unknown=True, max_length=8)
    with torch.no_grad():
        translator.model.output.weight[1] = translator.model.output.weight.mean(0) * 9
    sentences = ["zebra quick gnu fox", "the man goes over lazy dogs"]
    assert [translator.translate_live(one.split()) for one in sentences] == [
        one.text for one in translator.translate(sentences)
    ]


def read_at_most(translator: Translator, max_tokens: int) -> Translator:
    config = replace(translator.config, data=replace(translator.config.data, max_tokens=max_tokens))
    return Translator(replace(translator.bundle, config=config))


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_empty_words_and_white_space_are_not_translated(kind):
    translator = make(TRANSFORMER, kind, max_length=8)
    parts: list[str] = []
    assert [translator.translate_live(words, parts.append) for words in ([""], ["", " ", "\u00a0"])] == ["", ""]
    assert not parts
    assert translator.translate_live(["", " ", "fox"]) == translator.translate(["fox"], record=())[0].text


def test_sources_longer_than_the_model_reads_are_split_between_words():
    translator = read_at_most(make(TRANSFORMER, "words", max_length=5), 4)
    parts = translator.translate(["the quick brown fox", "jumps over"], record=())
    assert translator.translate_live(["the", "quick", "brown", "fox", "jumps", "over"]) == " ".join(one.text for one in parts)


@pytest.mark.parametrize(
    ("kind", "words", "unknown"),
    [
        ("words", ["fox,zebra;the:gnu!isn't?quick,emu", "is"], "and"),
        ("words", ["zebra/gnu/fox/emu/owl/fox/the", "is"], "and"),
        ("bpe", ["the", "thequickbrownfoxjumpsoverlazydogs", "fox"], "k"),
    ],
)
def test_a_word_longer_than_the_model_reads_is_split(kind, words, unknown):
    translator = read_at_most(make(TRANSFORMER, kind, max_length=5, replace_unknown=True), 4)
    with torch.no_grad():
        weights = translator.model.output.weight
        weights[1] = weights[translator.tokenizers.target.vocabulary().index(unknown)] * 1.5
    whole = translator.translate([" ".join(words)])[0]
    found = translator.translate_live(words)
    assert re.sub(r"\s", "", found) == re.sub(r"\s", "", whole.text)  # a space joins parts, also inside a word


def test_refusals():
    whole = make((*TRANSFORMER[:-1], "wait_k: 0"))
    with pytest.raises(RequestError, match="reads the whole source before it writes the first word"):
        whole.translate_live(["fox"])
    with pytest.raises(RequestError, match="words is a text, expected its words one by one"):
        make(TRANSFORMER).translate_live("a b")
    with pytest.raises(RequestError, match="min_length is 5 tokens, but max_length is 3"):
        make(TRANSFORMER).translate_live(["fox"], min_length=5, max_length=3)


def test_a_tokenizer_that_splits_earlier_words_again(monkeypatch):
    translator = make(TRANSFORMER, "words")
    tokenizer = translator.tokenizers.source
    encode = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text: encode(" ".join(reversed(text.split()))))
    with pytest.raises(RequestError, match="splits earlier words in another way after 'quick' has arrived"):
        translator.translate_live(["the", "quick"])


@pytest.mark.parametrize("model", [TRANSFORMER, MOCHA], ids=["wait-k", "mocha"])
def test_evaluation_reports_the_average_lagging(model):
    translator = make(model, "words")
    scores = translator.evaluate(TEXTS, TEXTS, max_length=8)
    assert "source tokens; average lagging" in scores.render()
    assert 0 <= scores.to_dict()["average_lagging"] <= 12
    if model is TRANSFORMER:  # all translations are longer than what is left to read, so AL is worked out by hand
        lengths = [len(translator.tokenizers.source.encode(text).ids) for text in TEXTS]
        found = translator.translate(TEXTS, max_length=8)
        lags = []
        for size, one in zip(lengths, found, strict=True):
            count = one.num_tokens - one.finished
            last = min(size - 2, count)
            lags.append(sum(min(3 + t, size) - t * size / count for t in range(last)) / last)
        assert scores.average_lagging == pytest.approx(sum(lags) / len(lags))
