"""Records of `generate` with caches that hold other keys than all earlier ones."""

import numpy as np
import pytest

import regard


def steps(lengths: list[int], *, first: int = 3) -> tuple:
    """Attention of one layer and one head: a first step of several queries, then one query of `lengths` keys each."""
    square = np.tril(np.ones((first, first), np.float32))
    rows = [np.arange(1, keys + 1, dtype=np.float32)[None] for keys in lengths]
    return tuple(((each / each.sum(-1, keepdims=True))[None, None],) for each in (square, *rows))


@pytest.mark.parametrize("window", [2, 3])
def test_a_sliding_window_holds_the_last_keys(window):
    record = regard.from_huggingface({"attentions": steps([window, window])}, list("abcde"))
    assert record.sites == ("decoder.0",)
    weights = record.weights["decoder.0"][0]
    assert not weights[4, : 5 - window].any()
    np.testing.assert_allclose(weights[4, 5 - window :], np.arange(1, window + 1) / sum(range(window + 1)), rtol=1e-6)
    assert weights[3, 3] == weights[3].max()


def test_a_cache_of_a_fixed_size_has_empty_places():
    made = [np.pad(step[0], ((0, 0), (0, 0), (0, 0), (0, 7 - step[0].shape[-1]))) for step in steps([4, 5])]
    record = regard.from_huggingface({"attentions": tuple((step,) for step in made)}, list("abcde"))
    plain = regard.from_huggingface({"attentions": steps([4, 5])}, list("abcde"))
    np.testing.assert_array_equal(record.weights["decoder.0"], plain.weights["decoder.0"])
