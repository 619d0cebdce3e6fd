"""The fast selection of words against the plain one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.candidates import best_words
from regard.text.symbols import PAD, START


@settings(max_examples=40, deadline=None)
@given(
    vocabulary_size=st.integers(5, 3000),
    count=st.integers(1, 12),
    rows=st.integers(1, 3),
    seed=st.integers(0, 1000),
    levels=st.integers(2, 10**6),
)
def test_equals_log_softmax_and_topk(vocabulary_size, count, rows, seed, levels):
    """`levels` few: many equal scores, where words may differ but not their log probabilities."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, levels, (rows, 2, vocabulary_size), generator=draw) / levels * 9
    logits[..., seed % vocabulary_size] = -torch.inf
    values, words = best_words(logits, count)
    plain = logits.log_softmax(-1)
    plain[..., [PAD, START]] = -torch.inf
    wanted = plain.topk(min(count, vocabulary_size - 2), -1)
    torch.testing.assert_close(values.sort(-1, descending=True).values[..., : wanted.values.shape[-1]], wanted.values)
    torch.testing.assert_close(plain.gather(-1, words), values)
    assert all(len(set(row)) == len(row) for row in words.flatten(0, 1).tolist())


def test_many_rows_and_half_precision():
    """More rows than a block, in bfloat16: probabilities are still computed in float32."""
    logits = torch.randn(40, 5, 1500, generator=torch.Generator().manual_seed(1)).bfloat16()
    logits[..., [PAD, START]] = -30  # so that neither is among the best
    values, _ = best_words(logits, 4)
    best = values.topk(4).indices
    exact = logits.float().log_softmax(-1).topk(4)
    torch.testing.assert_close(values.gather(-1, best), exact.values)
    assert values.dtype == torch.float32


@pytest.mark.parametrize("vocabulary_size", [6, 2000])
def test_leaves_the_scores_alone(vocabulary_size):
    logits = torch.randn(2, 3, vocabulary_size)
    before = logits.clone()
    best_words(logits, 3)
    assert torch.equal(logits, before)
