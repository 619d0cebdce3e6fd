"""Text in, text out, on a translator whose outputs are known."""

import itertools
import math

import numpy as np
import pytest

from regard.config import WordsConfig
from regard.decoding import Hypothesis, Sampling
from regard.errors import ConfigError, RequestError
from regard.records import AttentionRecord
from regard.reweight import at_step, attend_to, chain, flatten
from regard.tasks.loading import load
from regard.tasks.translation.results import Translation, disagreement
from regard.tasks.translation.sources import Source, encode_sources, join
from regard.text.tokenizers.tokenizer import build_tokenizer

LINES = ["one two three .", "", "Anna saw the cat .", "   ", "ten !", "one two three four five six seven eight nine ten ."]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations_come_back_in_order(echo, beam_size):
    results = echo().translate(LINES, beam_size=beam_size)
    assert [result.text for result in results] == [line.strip() for line in LINES]
    assert [result.source for result in results] == LINES
    assert all(result.finished for result in results)


def test_whatever_the_batches(echo):
    whole = echo().translate(LINES)
    for budget in (1, 30, 200):
        translator = echo(decoding={"batch_tokens": budget})
        parts = translator.translate(LINES)
        assert [part.text for part in parts] == [one.text for one in whole]
        assert [part.score for part in parts] == pytest.approx([one.score for one in whole])
        assert all(b == 1 or b * s * 5 <= budget for b, s in translator.model.shapes)


def test_the_public_example(echo):
    [result] = echo().translate(["Anna saw Ben ."], beam_size=5)
    assert result.text == "Anna saw Ben ."
    assert result.log_probability == pytest.approx(0, abs=1e-4)
    record = result.attention
    assert record is result.attention
    assert record.source_words == record.target_words == ("Anna", "saw", "Ben", ".")
    assert record.weights["cross"].shape == (5, 5)
    assert record.pharaoh() == "0-0 1-1 2-2 3-3"
    np.testing.assert_allclose(record.matrix(), np.eye(4))
    assert (record.source_text, record.target_text, record.score) == ("Anna saw Ben .", "Anna saw Ben .", result.score)


def test_the_record_has_the_words_that_subwords_make(echo):
    [result] = echo("characters").translate(["Anna saw Ben."])
    assert result.text == "Anna saw Ben."
    record = result.attention
    assert record.source_words == record.target_words
    assert record.target_words[:2] == ("Anna", "saw")
    assert len(record.target_tokens) == len("Anna saw Ben.") + 1 == record.weights["cross"].shape[0]
    assert record.pharaoh().startswith("0-0 1-1 2-2")


def test_empty_lines_do_not_reach_the_model(echo):
    translator = echo()
    for result in translator.translate(["", " \t"], n_best=3):
        assert (result.text, result.score, result.log_probability, result.alternatives) == ("", 0, 0, [])
        assert result.attention.source_words == result.attention.target_words == ()
        assert result.attention.pharaoh() == ""
    assert translator.model.shapes == []
    assert translator.translate([]) == []


def test_n_best(echo):
    [best] = echo().translate(["one two ."], beam_size=4, n_best=3)
    assert best.text == "one two ."
    assert len(best.alternatives) == 2
    scores = [one.score for one in (best, *best.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert all(one.attention.target_text == one.text != best.text for one in best.alternatives)


def test_arguments_go_over_the_configuration(echo):
    translator = echo(decoding={"beam_size": 2, "max_length": 3})
    [cut] = translator.translate(["one two three four ."])
    assert (cut.text, cut.finished) == ("one two three", False)
    assert cut.attention.target_words == ("one", "two", "three")
    [whole] = translator.translate(["one two three four ."], max_length=0)
    assert (whole.text, whole.finished) == ("one two three four .", True)
    [flat] = translator.translate(["one two three four ."], length_penalty=0.0, max_length=0)
    assert flat.score == pytest.approx(flat.log_probability)
    [longer] = translator.translate(["one two three four ."], length_penalty=0.0, length_reward=0.5, max_length=0)
    assert longer.score == pytest.approx(longer.log_probability + 0.5 * 6)
    rewarded = echo(decoding={"length_penalty": 0.0, "length_reward": 0.5})
    [scored] = rewarded.score(["one two three four ."], ["one two three four ."])
    assert scored.score == pytest.approx(scored.log_probability + 0.5 * 6)
    [drawn] = rewarded.translate(["one two ."], sampling=Sampling(count=1))
    assert drawn.score == pytest.approx(drawn.log_probability + 0.5 * 4)


def test_unknown_words_are_replaced_by_the_source_word_attended_to(echo):
    translator = echo()
    [plain] = translator.translate(["Anna saw Zoltán and Xu ."])
    assert plain.text.count("<unk>") == 2
    [result] = translator.translate(["Anna saw Zoltán and Xu ."], replace_unknown=True)
    assert result.text == "Anna saw Zoltán and Xu ."
    assert result.attention.target_words == ("Anna", "saw", "Zoltán", "and", "Xu", ".")
    [unrecorded] = translator.translate(["Zoltán saw ."], replace_unknown=True, record=())
    assert unrecorded.text == "Zoltán saw ."
    assert echo(decoding={"replace_unknown": True}).translate(["Xu ."])[0].text == "Xu ."


@pytest.mark.parametrize("text", ["Anna sжшw the жcat.", "“Anna” saw.", "Anna saw the cat…", "«Ben» saw (the) cat."])
@pytest.mark.parametrize("kind", ["characters", "bpe", "unigram"])
def test_words_of_a_record_are_those_of_the_text_also_with_replaced_symbols_inside(echo, kind, text):
    translator = echo(kind, decoding={"beam_size": 1, "replace_unknown": True})
    for result in (*translator.translate([text]), *translator.translate([text], prefix="Anna sж")):
        words = result.attention.in_units("words").target_words
        assert "".join("".join(words).split()) == "".join(result.text.split())


def test_an_end_symbol_replaces_no_word(echo):
    """Where the end of the source has the most attention, the best real word is taken."""
    translator = echo()
    step = translator.model.step

    def look_at_the_end(tokens, state, *, record=(), reweight=None):
        logits, maps, state = step(tokens, state, record=record)
        if maps:
            maps["cross"] = maps["cross"] * 0.3
            maps["cross"][..., -1] = 0.7
        return logits, maps, state

    translator.model.step = look_at_the_end
    assert translator.translate(["Xu saw ."], replace_unknown=True)[0].text == "Xu saw ."


def test_recording_is_by_choice(echo):
    translator = echo()
    [result] = translator.translate(["one ."], record=())
    assert result.attention is None
    assert list(translator.model.recorded[-1]) == []
    assert translator.translate(["one ."])[0].attention.sites == ("cross",)


def test_a_line_whose_pieces_are_cut_off_is_not_finished(echo):
    translator = echo(data={"max_tokens": 3})
    [cut] = translator.translate(["one two three Anna ."], max_length=3)  # its first piece is cut off, its last is not
    assert (cut.text, cut.finished) == ("one two three Anna .", False)
    assert cut.attention.target_tokens == ("one", "two", "three", "Anna", ".", "</s>")


def test_columns_of_pieces_without_an_end_between_them():
    def piece(tokens, *, finished):
        size = len(tokens) + finished
        attention = {"decoder.0": np.tril(np.ones((size, size), np.float32)), "cross": np.ones((size, 2), np.float32)}
        return Hypothesis(tokens, -1.0, -1.0, finished, np.full(size, -1.0, np.float32), attention)

    for first in (False, True):
        source = Source("", (np.zeros(2), np.zeros(2)))
        whole = join([piece([5, 6], finished=first), piece([7, 8], finished=True)], source, 9, 1.0, 0.0)
        assert whole.finished is first
        weights = whole.attention["decoder.0"]
        start = 2 + first
        np.testing.assert_array_equal(weights[start:, start], [first] * 3)
        np.testing.assert_array_equal(weights[start:, start + 1], [0, 1, 1])
        assert whole.attention["cross"].sum() == 2 * start + 2 * 3


def test_long_lines_are_translated_in_pieces(echo):
    """At the end of a sentence where there is one, between words else; and nothing is lost."""
    translator = echo(data={"max_tokens": 7})
    text = "one two three . Anna saw Ben . " + "one two three four five six seven eight nine ten"
    [result, short] = translator.translate([text, "one ."], beam_size=3)
    assert result.text == text
    assert short.text == "one ."
    assert max(width for _, width in translator.model.shapes) == 8
    assert [piece.tolist()[-1] for piece in _pieces(translator, text)] == [3, 3, 3, 3]
    assert [len(piece) - 1 for piece in _pieces(translator, text)] == [4, 4, 7, 3]
    record = result.attention
    assert record.target_words == record.source_words == tuple(text.split())
    assert record.pharaoh() == " ".join(f"{i}-{i}" for i in range(18))
    assert record.source_tokens.count("</s>") == 4
    assert result.log_probability == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("sentences", "longest"),
    [
        (["मैं शहर में रहता हूँ।", "मेरा भाई गाँव में रहता है।", "बारिश होती है।"], 8),
        (["أين يسكن أخوك الكبير؟", "أخي يسكن في القرية القديمة؟"], 8),
        (["میں شہر میں رہتا ہوں۔", "میرا بھائی گاؤں میں رہتا ہے۔"], 8),
        (["She said “I live in the old city.”", "Then my brother went away."], 12),
        (["My brother lives (in the old city.)", "Then he went away."], 12),
    ],
)
def test_parts_end_with_sentences(sentences, longest):
    tokenizer = build_tokenizer([sentences], WordsConfig(min_count=1))
    [source] = encode_sources([" ".join(sentences)], tokenizer, longest)
    assert [tokenizer.decode(piece) for piece in source.pieces] == sentences


def _pieces(translator, text):
    return encode_sources([text], translator.bundle.parts.source, translator.config.data.max_tokens)[0].pieces


def test_a_long_word_is_cut_anywhere(echo):
    [result] = echo("characters", data={"max_tokens": 5}).translate(["sevenseveneightseven one"])
    assert result.text.replace(" ", "") == "sevenseveneightsevenone"


def test_stream_keeps_order_and_holds_little(echo):
    taken = []

    def lines():
        for number in range(10_000):
            taken.append(number)
            yield f"{['one', 'two', 'three'][number % 3]} ten .\r\n"

    stream = echo().translate_stream(lines(), beam_size=1)
    first = list(itertools.islice(stream, 10))
    assert [one.text for one in first] == [f"{['one', 'two', 'three'][n % 3]} ten ." for n in range(10)]
    assert len(taken) < 5000
    assert sum(1 for _ in stream) == 9990


def test_force_scores_what_it_is_given(echo):
    translator = echo()
    right, wrong, empty = translator.force(["one two .", "one two .", ""], ["one two .", "two one .", ""])
    assert right.log_probability == pytest.approx(0, abs=1e-4)
    assert wrong.log_probability < -30
    assert (right.text, wrong.text, empty.text) == ("one two .", "two one .", "")
    assert wrong.attention.target_words == ("two", "one", ".")
    assert wrong.attention.pharaoh() == "0-0 1-1 2-2"
    assert empty.attention.source_words == ()
    assert wrong.score == pytest.approx(wrong.log_probability / (9 / 6))
    assert translator.force(["one ."], ["one ."], record=())[0].attention is None


def test_evaluate(echo):
    scores = echo("words").evaluate(["one two three .", "Anna saw the cat ."], ["one two three .", "Anna saw the cat ."])
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert scores.loss == pytest.approx(0, abs=1e-4)
    assert scores.perplexity == pytest.approx(1, abs=1e-4)
    assert scores.to_dict()["pairs"] == 2
    texts = ["one two three .", "Anna saw the cat ."]
    assert echo("words").evaluate(iter(texts), np.array(texts)) == scores
    assert "tok:13a" in scores.bleu_signature
    assert "beam 5, length penalty 1\n" in scores.render()
    rewarded = echo("words", decoding={"length_penalty": 0.0, "length_reward": 0.75}).evaluate(["one ."], ["one ."])
    assert "beam 5, length penalty 0, length reward 0.75\n" in rewarded.render()
    assert "2 pairs" in scores.render()
    settings = {"no_repeat_ngrams": 2, "max_length": 9, "min_length": 1, "suppress_unknown": True, "replace_unknown": True}
    restricted = echo("words").evaluate(["one ."], ["one ."], **settings)
    assert "at least 1 token, at most 9 tokens, no repeated 2-grams, no unknown symbols, unknown words" in restricted.render()
    assert restricted.search in restricted.render()


def test_evaluate_searches_as_it_is_told(echo):
    translator = echo("words", decoding={"length_reward": 0.75})
    scores = translator.evaluate(["one two ."], ["one two three ."], beam_size=3, length_penalty=0, length_reward=0.5)
    assert (scores.beam_size, scores.length_penalty, scores.length_reward) == (3, 0, 0.5)
    assert scores.length_ratio == pytest.approx(3 / 4)
    assert "length     0.750 " in scores.render()
    with pytest.raises(RequestError, match="length_reward is -1"):
        translator.evaluate(["one ."], ["one ."], length_reward=-1)


def test_loss_is_a_mean_over_target_tokens(echo):
    """Of "ten ." and its end, one of three is wrong; each costs what the softmax says."""
    translator = echo()
    size, wrong = translator.bundle.parts.target.size, 20.0
    scores = translator.evaluate(["one ."], ["ten ."])
    assert scores.loss == pytest.approx(wrong / 3 + math.log1p((size - 1) * math.exp(-20)), rel=1e-4)


def test_text_that_was_tokenised_is_scored_as_it_is(echo):
    translator = echo("whitespace", tokenizer={"lowercase": True})
    signature = translator.evaluate(["one two three , ."], ["one two three , ."]).bleu_signature
    assert "tok:none" in signature
    assert "case:lc" in signature


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.translate("one two"), r"translate: got one text, expected a list of texts: write \['one two'\]"),
        (lambda t: t.translate(["one", None]), "translate: text 2 is a NoneType, expected a str"),
        (lambda t: t.translate(["one"], beam_size=0), "beam_size is 0, expected "),
        (lambda t: t.translate(["one"], beam_size="three"), "^beam_size is 'three', expected a whole number"),
        (lambda t: t.translate(["one"], n_best=2.0), "^n_best is 2.0, expected a whole number"),
        (lambda t: t.translate(["one"], max_length=True), "^max_length is True, expected a whole number"),
        (lambda t: t.translate(["one"], length_penalty="x"), "^length_penalty is 'x', expected a finite number"),
        (lambda t: t.translate(["one"], suppress_unknown="yes"), "^suppress_unknown is 'yes', expected true or false"),
        (lambda t: t.translate(["one"], sampling=2), r"sampling is 2, expected settings, such as Sampling\(count=8\)"),
        (
            lambda t: t.translate(["one"], constraints=["a phrase"]),
            r"constraints: got 'a phrase', expected a list of phrases for each text: constraints=\[\['a phrase', …\], …\]",
        ),
        (lambda t: t.translate(["one"], beam_size=2, n_best=3), "n_best is 3, expected 1 to beam_size, which is 2"),
        (lambda t: t.translate(["one"], record=["encoder"]), r"record names the attention 'encoder'; this model has: cross"),
        (lambda t: t.translate(["one"], record=True), r"record is True, expected a list of attention sites, such as record="),
        (lambda t: t.translate(["one"], record=[1]), r"record is \[1\], expected a list of attention sites"),
        (lambda t: t.force(["one"], ["eins"], record=3), r"record is 3, expected a list of attention sites"),
        (
            lambda t: t.translate(["a", "x" * 50_000_000]),
            r"text 2 has 50,000,000 characters, expected at most 16,777,216; split",
        ),
        (lambda t: t.translate(["one"], record="cross"), r"record is 'cross', expected a list .* record=\['cross'\]"),
        (lambda t: t.force(["one"], []), "force: got 1 sources and 0 targets, expected the same number of each"),
        (lambda t: t.evaluate([], []), "evaluate: got 0 sources and 0 targets, expected the same number, at least one"),
    ],
)
def test_wrong_requests(echo, call, message):
    with pytest.raises(RequestError, match=message):
        call(echo())


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "device is 'gpu', expected auto, cpu, cuda, cuda:N, or mps"),
        ("meta", "device is 'meta', expected auto, cpu"),
        ("cuda:99", r"device is 'cuda:99', but there (is|are)"),
    ],
)
def test_devices_that_are_not_there(tmp_path, device, message):
    with pytest.raises((ConfigError, RequestError), match=message):
        load(tmp_path, device=device)


def test_progress_goes_to_standard_error(echo, capsys):
    echo().translate(LINES, progress=True)
    echo().translate(LINES)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sampling": Sampling(count=2)}])
def test_other_attention_other_words(echo, options):
    """This translator writes the source word that it attends to."""
    swapped = chain(at_step(0, attend_to(2)), at_step(2, attend_to(0)))
    for reweight in (swapped, {"cross": swapped}):
        results = echo().translate(["Anna saw Ben .", "one two three four five six"], reweight=reweight, **options)
        assert [one.text for one in results] == ["Ben saw Anna .", "three two one four five six"]
        assert results[0].attention.weights["cross"].argmax(-1).tolist() == [2, 1, 0, 3, 4]
    assert [one.text for one in echo().translate_stream(["Anna saw Ben ."], reweight=swapped)] == ["Ben saw Anna ."]


def test_a_given_target_under_other_attention(echo):
    [plain] = echo().force(["Anna saw Ben ."], ["Anna saw Ben ."])
    [moved] = echo().force(["Anna saw Ben ."], ["Anna saw Ben ."], reweight=at_step(1, attend_to(0)))
    assert plain.log_probability == pytest.approx(0, abs=1e-4)
    assert moved.log_probability == pytest.approx(-20, abs=1e-3)


def test_the_columns_of_a_word(echo):
    translator = echo("bpe", tokenizer={"size": 45})
    [found] = translator.translate(["Anna saw Ben ."])
    record = found.attention
    assert record.columns("Ben") == tuple(i for i, owner in enumerate(record.source_word_of) if owner == 2)
    assert "".join(record.source_tokens[i] for i in record.columns("Ben")).replace("▁", "") == "Ben"
    with pytest.raises(RequestError, match=r"^columns: the source has no word 'ben', only 'Anna', .*did you mean 'Ben'\?$"):
        record.columns("ben")


def test_other_attention_at_no_such_site(echo):
    with pytest.raises(
        RequestError, match=r"^reweight names the attention 'cros'; this model has: cross; did you mean 'cross'"
    ):
        echo().translate(["Anna saw Ben ."], reweight={"cros": flatten})
    with pytest.raises(
        RequestError, match=r"^reweight is a float, expected functions by site, as in reweight={'cross': flatten}"
    ):
        echo().translate(["Anna saw Ben ."], reweight=0.5)


def test_attention_and_decision_disagree_if_another_word_costs_more():
    """The first token attends to the first word and depends on the second; the end symbol depends on nothing."""
    logs = {"found": [0.9, 0.8], "without the first": [0.9, 0.8], "without the second": [0.3, 0.8]}
    sides = {"source_tokens": ["a", "b", "</s>"], "source_words": ["a", "b"], "source_word_of": [0, 1, -1]}
    sides |= {"target_tokens": ["x", "</s>"], "target_words": ["x"], "target_word_of": [0, -1]}
    record = AttentionRecord(**sides, weights={"cross": np.array([[[0.7, 0.2, 0.1], [0.0, 0.1, 0.9]]])})
    found, *others = (
        Translation("a b", "x", 0.0, 0.0, token_log_probabilities=np.log(one), _build=lambda: record) for one in logs.values()
    )
    assert disagreement(found, others) == pytest.approx(0.6)


def test_a_translator_that_copies_agrees_with_its_attention(echo):
    assert echo().disagreement("one two three .") == pytest.approx(0, abs=1e-3)
    assert echo().disagreement("") == 0
