"""The fast selection of continuations against the plain one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding import best
from regard.decoding.best import best_continuations


@pytest.fixture(autouse=True, scope="module")
def few_values_are_many():
    """Use runs of words for small tensors too."""
    before, best._FEW = best._FEW, 0
    yield
    best._FEW = before


@settings(max_examples=40, deadline=None)
@given(
    vocabulary_size=st.integers(5, 1500),
    count=st.integers(1, 6),
    beam=st.integers(1, 5),
    seed=st.integers(0, 1000),
    levels=st.integers(2, 10**6),
)
def test_continuations_equal_topk(vocabulary_size, count, beam, seed, levels):
    """If `levels` is small, many values are equal: then words may differ, but not their values."""
    draw = torch.Generator().manual_seed(seed)
    values = torch.randint(-levels, 0, (3, beam, vocabulary_size), generator=draw) / levels * 9
    values[..., seed % vocabulary_size] = -torch.inf
    before = values.clone()
    worth = -10 * torch.rand(3, beam, generator=draw)
    worth[:, 1:][torch.rand(3, beam - 1, generator=draw) < 0.3] = -torch.inf  # ended
    parent, words, found = best_continuations(worth, values, count)
    sums = (worth[:, :, None] + values).flatten(1)
    assert torch.equal(found, sums.topk(min(count, beam * vocabulary_size), 1).values)
    assert torch.equal(sums.gather(1, parent * vocabulary_size + words), found)
    assert torch.equal(values, before)
    chosen = [set(row.tolist()) for row in (parent * vocabulary_size + words).where(found.isfinite(), -1)]
    assert all(len(row - {-1}) == int(ended.isfinite().sum()) for row, ended in zip(chosen, found, strict=True))


def test_a_value_that_is_nan_is_chosen():
    """So that the search finds it."""
    values = torch.randn(2, 3, 2001)
    values[1, 2, -1] = torch.nan
    assert best_continuations(torch.zeros(2, 3), values, 2)[2].isnan().any(1).tolist() == [False, True]
