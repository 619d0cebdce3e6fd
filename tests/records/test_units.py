"""Views in characters, tokens or words: which units each side has, and what a record keeps."""

import json

import numpy as np
import pytest

from regard.errors import DataError, RequestError
from regard.records import AttentionRecord, from_huggingface, load_record, record


def spelled(**changes):
    fields = {
        "source_tokens": (*"no", " ", "<unk>", "x", "</s>"),
        "source_words": ("no", "Éx"),
        "source_word_of": (0, 0, 1, 1, 1, -1),
        "target_tokens": ("N", "OW", "</s>"),
        "target_words": ("N", "OW"),
        "target_word_of": (0, 1, -1),
        "weights": {"cross": np.array([[6, 1, 1, 1, 1, 0], [1, 5, 1, 1, 1, 1], [0, 0, 0, 0, 0, 10]]) / 10},
        "source_scheme": "characters",
    }
    return AttentionRecord(**{**fields, **changes})


def test_a_side_of_characters_is_shown_as_characters_and_the_other_as_words():
    record = spelled()
    assert record.words() == (("N", "OW"), ("n", "o", " ", "É", "x"))
    np.testing.assert_allclose(record.matrix(), record.weights["cross"][:2, :5])
    assert record.view().columns == ("n", "o", " ", "É", "x")
    assert record.pharaoh() == "0-0 1-1"
    assert record.view().hidden == pytest.approx([0, 0.1])
    for units in ("auto", "characters", "tokens"):
        np.testing.assert_array_equal(record.matrix(units=units), record.matrix())
        assert record.in_units(units).source_words == ("n", "o", " ", "É", "x")


def test_words_are_still_there():
    record = spelled()
    np.testing.assert_allclose(record.matrix(units="words"), [[0.7, 0.3], [0.6, 0.3]])
    assert record.pharaoh(units="words") == "0-0 0-1"
    assert record.alignment(units="words", threshold=0.3) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert record.in_units("words").words() == (("N", "OW"), ("no", "Éx"))
    assert record.columns("no") == (0, 1)


def test_letters_that_differ_from_the_words_are_those_of_the_tokens():
    assert spelled(source_words=("no", "Éxy")).words()[1] == ("n", "o", " ", "<unk>", "x")


def test_subwords_have_tokens_but_no_characters():
    record = spelled(source_scheme="")
    assert record.words()[1] == ("no", "Éx")
    assert record.in_units("tokens").source_words == ("n", "o", " ", "<unk>", "x")
    with pytest.raises(RequestError, match=r"the model's tokens are words or subwords, .* use 'tokens'"):
        record.matrix(units="characters")
    with pytest.raises(RequestError, match=r"units is 'letters', expected auto, tokens, characters, words"):
        record.in_units("letters")


def test_columns_of_a_decoder_are_shifted_in_every_unit():
    record = spelled(
        source_scheme="", target_scheme="characters", target_tokens=(*"ab", "</s>"), target_words=("ab",),
        target_word_of=(0, 0, -1), weights={"decoder": np.tril(np.full((3, 3), 0.25))},
    )  # fmt: skip
    np.testing.assert_allclose(record.matrix(), [[0, 0], [0.25, 0]])
    np.testing.assert_allclose(record.matrix(units="words"), [[0.125]])


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_files_keep_what_the_tokens_are_and_old_files_load(tmp_path, ending):
    record = spelled()
    record.save(tmp_path / f"new{ending}")
    assert load_record(tmp_path / f"new{ending}") == record
    assert json.loads(record.to_json())["format_version"] == 4
    old = spelled(source_scheme="")
    assert json.loads(old.to_json())["format_version"] == 1
    assert "scheme" not in old.to_json()
    old.save(tmp_path / f"old{ending}")
    assert load_record(tmp_path / f"old{ending}").words()[1] == ("no", "Éx")


@pytest.mark.parametrize(
    ("words", "unit"), [("今天很好", "character"), ("今天a", "character"), (["今天", "很好"], "word"), ("abcd", "word")]
)
def test_letters_of_scripts_without_spaces_are_called_characters(words, unit):
    made = record({"encoder.0": np.eye(len(words))}, list(words), [])
    assert made.unit("source") == unit
    assert made.in_units("tokens").unit("source") in (unit, "token")


def test_an_unknown_scheme_is_refused():
    with pytest.raises(DataError, match="source_scheme is 'runes', expected one of '', 'characters'"):
        spelled(source_scheme="runes")


def byte_level(**settings):
    tokens = ["<s>", "ä»Ĭå¤©", "æ°", "Ķ", "Ġgood"]
    weights = (np.tril(np.ones((1, 1, 5, 5))) / np.arange(1, 6)[:, None],)
    return from_huggingface(weights, tokens, **settings)


def test_tokens_of_bytes_have_readable_labels_and_join_to_whole_characters():
    record = byte_level()
    assert record.target_tokens == ("<s>", "ä»Ĭå¤©", "æ°", "Ķ", "Ġgood")
    assert (record.target_words, record.target_word_of) == (("今天", "气", "good"), (-1, 0, 1, 1, 2))
    assert record.in_units("tokens").target_words == ("今天", "气", "▁good")
    assert AttentionRecord.from_json(record.to_json()).in_units("tokens") == byte_level(units="tokens")
    assert byte_level(subwords="none") == byte_level(units="tokens")
    assert record.in_units("tokens").in_units("tokens") == record.in_units("tokens")
    np.testing.assert_allclose(record.matrix(units="tokens")[-1], [0.2, 0.4, 0.2])
