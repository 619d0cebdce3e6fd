from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, RequestError, ShapeError
from regard.records import AttentionRecord, record
from regard.viz.caption import shows


def trimmed_mass(made):
    view = made.view()
    return view.hidden * view.totals


def subwords(**changes):
    """`un|believ|able story </s>` → `die Ge|schichte </s>`, with weights by hand."""
    fields = {
        "source_tokens": ["un", "believ", "able", "story", "</s>"],
        "target_tokens": ["die", "Ge", "schichte", "</s>"],
        "source_words": ["unbelievable", "story"],
        "target_words": ["die", "Geschichte"],
        "source_word_of": [0, 0, 0, 1, -1],
        "target_word_of": [0, 1, 1, -1],
        "weights": {
            "cross": [[0.1, 0.2, 0.3, 0.4, 0.0], [0.1, 0.1, 0.0, 0.5, 0.3], [0.0, 0.0, 0.1, 0.8, 0.1], [0, 0, 0, 0, 1]]
        },
    }
    return AttentionRecord(**fields | changes)


def test_matrix_sums_source_columns_averages_output_rows_and_trims():
    made = subwords()
    expected = [[0.6, 0.4], [0.15, 0.65]]
    np.testing.assert_allclose(made.matrix(), expected, atol=1e-7)
    np.testing.assert_allclose(trimmed_mass(made), [0.0, 0.2], atol=1e-7)
    assert made.weights["cross"].shape == (4, 5)
    assert made.matrix().dtype == np.float32


def test_words_of_one_token_each_come_back_untouched():
    weights = np.random.default_rng(0).random((5, 7), np.float32)
    np.testing.assert_array_equal(record(weights, list("abcdefg"), list("vwxyz")).matrix(), weights)


@st.composite
def records(draw):
    source = draw(st.lists(st.integers(-1, 4), min_size=1, max_size=8))
    target = draw(st.lists(st.integers(-1, 3), min_size=1, max_size=7))
    heads = draw(st.sampled_from([None, 1, 3]))
    shape = (len(target), len(source)) if heads is None else (heads, len(target), len(source))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    raw = rng.random(shape) + 1e-3
    return AttentionRecord(
        source_tokens=draw(st.lists(st.text(max_size=5), min_size=len(source), max_size=len(source))),
        target_tokens=[f"t{i}" for i in target],
        source_words=draw(st.lists(st.text(max_size=5), min_size=5, max_size=5)),
        target_words=["a", "b", "c", "d"],
        source_word_of=source,
        target_word_of=target,
        weights={"cross": raw / raw.sum(-1, keepdims=True)},
        source_text=draw(st.text(max_size=8)),
        score=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        reference=draw(st.none() | st.text(max_size=8)),
    )


@given(records())
def test_merging_loses_no_weight(made):
    present = np.isin(range(4), made.target_word_of)
    rows = made.matrix().sum(1) + trimmed_mass(made)
    np.testing.assert_allclose(rows[present], 1.0, atol=1e-5)
    assert not made.matrix()[~present].any()


def test_heads_are_averaged_unless_one_is_named():
    weights = np.stack([np.eye(3), np.full((3, 3), 1 / 3)])
    made = record(weights, list("abc"), list("xyz"))
    np.testing.assert_allclose(made.matrix(), weights.mean(0), atol=1e-7)
    np.testing.assert_array_equal(made.matrix(head=0), np.eye(3))
    assert made.num_heads() == 2
    with pytest.raises(RequestError, match=r"head 2 was requested at site 'cross', which has 2 heads: choose one of 0 to 1"):
        made.matrix(head=2)
    with pytest.raises(RequestError, match="which has no heads: leave head out"):
        subwords().matrix(head=0)


def test_sites_by_name_by_default_and_by_nearest_match():
    plain = [[1.0, 0.0]]
    made = record({"encoder.0": np.eye(2), "cross": plain}, ["a", "b"], ["x"])
    assert made.sites == ("encoder.0", "cross")
    assert made.matrix().shape == (1, 2)
    assert made.matrix("encoder.0").shape == (2, 2)
    assert made.words("encoder.0") == (("a", "b"), ("a", "b"))
    assert record({"last": plain}, ["a", "b"], ["x"]).site() == "last"
    with pytest.raises(RequestError, match=r"no site 'crss', only encoder.0, cross; did you mean 'cross'\?"):
        made.matrix("crss")
    with pytest.raises(RequestError, match=r"several sites: name one of cross.0, cross.1, as in site='cross.0'"):
        record({"cross.0": plain, "cross.1": plain}, ["a", "b"], ["x"]).matrix()


def test_alignment_links_each_output_word_once_or_by_threshold():
    made = subwords()
    assert made.alignment() == [(0, 0), (1, 1)]
    assert made.pharaoh() == "0-0 1-1"
    assert made.alignment(threshold=0.3) == [(0, 0), (1, 0), (1, 1)]
    assert record([[0.0, 0.0], [0.0, 1.0]], ["a", "b"], ["x", "y"]).pharaoh() == "1-1"
    assert record(np.zeros((0, 2)), ["a", "b"], []).alignment() == []


def test_alignment_by_the_step_that_consumes_the_word():
    """`Ge` is read in the row of `schichte`, and `schichte` in the row of the end."""
    made = subwords()
    expected = [[0.2, 0.5], [0.05, 0.4]]
    np.testing.assert_allclose(made.matrix(step="consume"), expected, atol=1e-7)
    other = subwords(weights={"cross": [[1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]})
    assert other.pharaoh() == "0-0 0-1"
    assert other.pharaoh(step="consume") == "0-1 1-0"
    assert record(np.eye(2), ["a", "b"], ["x", "y"]).pharaoh(step="consume") == "1-0"
    with pytest.raises(RequestError, match="step is 'shift', expected produce or consume"):
        made.matrix(step="shift")
    with pytest.raises(RequestError, match=r"'consume' was requested at site 'encoder.0', expected a cross-attention site"):
        record({"encoder.0": np.eye(2)}, ["a", "b"], []).matrix(step="consume")
    with pytest.raises(RequestError, match="in which each row predicts a target token"):
        record(np.eye(2), ["a", "b"], ["<s>", "x"], target_is_read=True).matrix(step="consume")


@pytest.mark.parametrize("site", ["encoder.0", "decoder.rollout"])
def test_links_are_between_source_and_output_only(site):
    made = record({site: np.eye(2), "cross": np.eye(2)}, ["a", "b"], ["x", "y"])
    assert made.pharaoh() == "0-0 1-1"
    with pytest.raises(
        RequestError, match=f"links between source and output were requested for site '{site}', whose rows and columns"
    ):
        made.pharaoh(site)


def test_a_step_reads_the_word_before_the_one_it_writes():
    """Columns are the start symbol, x and y: the step that writes x reads the start alone, the next one the start and x."""
    weights = {"decoder.0": [[1.0, 0, 0], [0.25, 0.75, 0], [0.5, 0.125, 0.375]]}
    made = AttentionRecord(
        source_tokens=(),
        source_words=(),
        source_word_of=(),
        target_tokens=("x", "y", "</s>"),
        target_words=("x", "y"),
        target_word_of=(0, 1, -1),
        weights=weights,
    )
    np.testing.assert_array_equal(made.matrix(), [[0, 0], [0.75, 0]])
    np.testing.assert_array_equal(trimmed_mass(made), [1, 0.25])
    read = replace(made, target_tokens=("<s>", "x", "y"), target_word_of=(-1, 0, 1), target_is_read=True)
    np.testing.assert_array_equal(read.matrix(), [[0.75, 0], [0.125, 0.375]])
    np.testing.assert_array_equal(trimmed_mass(read), [0.25, 0.5])
    assert record({"decoder": np.zeros((0, 0)), "cross": np.zeros((0, 1))}, ["a"], []).matrix("decoder").shape == (0, 0)
    with pytest.raises(DataError, match="target_is_read must be true or false, got 1"):
        replace(made, target_is_read=1)


def test_tensors_of_any_type_become_read_only_float32():
    weights = torch.full((1, 2), 0.5, dtype=torch.bfloat16, requires_grad=True)
    made = record(weights, ["a", "b"], ["x"])
    assert made.weights["cross"].dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        made.weights["cross"][0, 0] = 1


def test_text_is_the_words_unless_given():
    made = record([[1.0]], ["hallo"], ["hello"], target_text="Hello!")
    assert (made.source_text, made.target_text) == ("hallo", "Hello!")
    assert repr(made) == "AttentionRecord('hallo' → 'Hello!'; cross 1×1)"
    assert repr(record({"encoder.0": [[1.0]]}, ["hallo"], [])) == "AttentionRecord('hallo'; encoder.0 1×1)"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"weights": {"cross": np.zeros((5, 4))}}, ShapeError, r"has shape \(5, 4\), expected \(T, S\) = \(4, 5\).*exchanged"),
        ({"weights": {"cross": np.zeros((2, 1, 4, 5))}}, ShapeError, r"a batch: give one sentence of it, as in weights\[0\]"),
        ({"weights": {"cross": np.full((4, 5), np.nan)}}, DataError, r"cross'\] holds 20 values that are NaN or infinite"),
        ({"weights": {"cross": [[1.0], [1.0, 2.0]]}}, DataError, "is not a matrix of numbers .*: give rows of equal length"),
        ({"weights": {}}, DataError, "weights must map at least one site to a matrix"),
        ({"source_word_of": [0, 0, 0, 1]}, ShapeError, "source_word_of has 4 entries, expected 5: one for each of the"),
        ({"target_word_of": [0, 1, 2, -1]}, DataError, r"target_word_of\[2\] is 2, expected an index into the 2 target_words"),
        ({"target_word_of": [0, 1, -2, -1]}, DataError, r"target_word_of\[2\] is -2, .* or -1 for a special symbol"),
        ({"score": float("inf")}, DataError, "score must be finite or None, got inf"),
        ({"source_words": "unbelievable story"}, DataError, "source_words must be a list of strings, got 'unbelievable story'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name_and_size(changes, error, message):
    with pytest.raises(error, match=message):
        subwords(**changes)


def classified(**changes):
    weights = {"pool": [[[0.5, 0.3, 0.2]], [[0.1, 0.3, 0.6]]], "encoder.0": np.eye(3)}
    return record(weights, ["a", "b", "c"], ["good"], **{"probabilities": {"good": 0.9, "bad": 0.1}} | changes)


def test_a_classification_is_a_record_whose_pool_is_meant():
    it = classified()
    assert it.is_classification
    assert it.site() == "pool"
    np.testing.assert_allclose(it.word_weights(), [0.3, 0.3, 0.4], atol=1e-6)
    np.testing.assert_allclose(it.word_weights(head=1), [0.1, 0.3, 0.6], atol=1e-6)
    np.testing.assert_allclose(it.word_weights("encoder.0"), [1 / 3] * 3, atol=1e-6)
    assert it.note == "Attention weights do not prove which words the model's output depends on."
    assert classified(note="Tested.").note == "Tested."
    assert record([[1.0]], ["a"], ["good"], probabilities={"good": 1.0}).sites == ("pool",)
    assert it != classified(probabilities={"good": 0.8, "bad": 0.2})


def test_word_weights_of_subwords_are_summed_and_special_symbols_left_out():
    it = AttentionRecord(
        source_tokens=["grip", "ping", "film", "</s>"], target_tokens=["good"], source_words=["gripping", "film"],
        target_words=["good"], source_word_of=[0, 0, 1, -1], target_word_of=[0], weights={"pool": [[0.2, 0.3, 0.1, 0.4]]},
        probabilities={"good": 1.0},
    )  # fmt: skip
    np.testing.assert_allclose(it.word_weights(), [0.5, 0.1], atol=1e-6)


def test_words_of_a_hierarchical_classifier_have_the_weight_of_their_sentence():
    made = AttentionRecord(
        source_tokens=["un", "bear", "able", ".", "</s>"], target_tokens=["bad"], source_words=["unbearable", "."],
        target_words=["bad"], source_word_of=[0, 0, 0, 1, -1], target_word_of=[0], probabilities={"bad": 1.0},
        weights={"sentence": [[0.75, 0.75, 0.75, 0.75, 0.25]]},
    )  # fmt: skip
    np.testing.assert_allclose(made.matrix(), [[0.75, 0.75]])
    np.testing.assert_allclose(made.word_weights("sentence"), [0.75, 0.75])
    np.testing.assert_allclose(made.view(special=True).matrix, [[0.75, 0.75, 0.25]])
    np.testing.assert_allclose(made.matrix(units="tokens"), [[0.75] * 4])
    assert "each word has the weight of its sentence (sentence)." in shows(made, ["sentence"])


def test_probabilities_of_any_kind_of_number_are_kept_as_floats():
    it = classified(probabilities={"good": np.float32(1.0000001), "bad": 0})
    assert it.probabilities == {"good": 1.0, "bad": 0.0}
    assert all(type(x) is float for x in it.probabilities.values())
    assert not record([[1.0]], ["a"], ["x"], probabilities={}).is_classification
    with pytest.raises(DataError, match="probabilities must map labels to numbers, got 'good'"):
        classified(probabilities="good")
    with pytest.raises(DataError, match=r"probabilities\['good'\] is nan, expected a number from 0 to 1"):
        classified(probabilities={"good": float("nan")})
