"""The fast selection of words against the plain one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.candidates import best_continuations, best_words, log_normalizers
from regard.errors import RequestError
from regard.text.symbols import END, PAD, START


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


@settings(max_examples=40, deadline=None)
@given(
    vocabulary_size=st.integers(5, 1500),
    count=st.integers(1, 6),
    beam=st.integers(1, 5),
    seed=st.integers(0, 1000),
    levels=st.integers(2, 10**6),
    end_cost=st.sampled_from([0.0, 0.7, 30.0]),
)
def test_continuations_equal_log_softmax_and_topk(vocabulary_size, count, beam, seed, levels, end_cost):
    """Of all hypotheses together, by the runs of their words where the vocabulary is large."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, levels, (3, beam, vocabulary_size), generator=draw) / levels * 9
    logits[..., END] += 4 * (seed % 3)  # so that it often is the best
    logits[..., seed % vocabulary_size] = -torch.inf
    total = -10 * torch.rand(3, beam, generator=draw)
    total[:, 1:][torch.rand(3, beam - 1, generator=draw) < 0.3] = -torch.inf  # ended
    plain = logits.log_softmax(-1)
    plain[..., [PAD, START]] = -torch.inf
    plain += total[:, :, None]
    costs = end_cost * torch.tensor([1.0, 0.0, 0.5])
    parent, words, found = best_continuations(total, logits, count, end_cost=costs if end_cost else None)
    ranks = plain.clone()
    ranks[..., END] -= costs[:, None]
    wanted = ranks.flatten(1).topk(min(count, beam * vocabulary_size), 1).values
    torch.testing.assert_close(found - costs[:, None] * (words == END), wanted, atol=2e-5, rtol=0)
    picked = plain.flatten(1).gather(1, parent * vocabulary_size + words)
    torch.testing.assert_close(picked, found, atol=2e-5, rtol=0)
    real = [set(row.tolist()) for row in (parent * vocabulary_size + words).where(found.isfinite(), -1)]
    assert all(len(row - {-1}) == int(ended.isfinite().sum()) for row, ended in zip(real, found, strict=True))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("vocabulary_size", [50, 2001])
def test_continuations_of_scores_that_are_not_finite_are_refused(bad, vocabulary_size):
    logits = torch.randn(2, 3, vocabulary_size)
    logits[1, 2, -1] = bad
    with pytest.raises(RequestError, match="not finite"):
        best_continuations(torch.zeros(2, 3), logits, 2)


def test_normalizers_of_many_rows():
    rows = 40 * torch.randn(37, 3000, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(log_normalizers(rows), rows.double().logsumexp(-1).float())
