"""Local attention: windows worked by hand, what masks do to positions, and what is refused."""

import pytest
import torch

from regard.attention import (
    Additive,
    Coverage,
    Dot,
    General,
    LocalMonotonic,
    LocalPredictive,
    PositionState,
    Sigmoid,
    Sparsemax,
)
from regard.errors import ConfigError, ShapeError


@pytest.mark.parametrize("build", [LocalMonotonic, LocalPredictive])
@pytest.mark.parametrize("pattern", [[1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 0, 0, 1, 1, 0, 1]])
def test_masked_keys_are_as_if_taken_out(build, pattern):
    torch.manual_seed(0)
    attention = build(3, window=1).double()
    query, key, kept = torch.randn(1, 4, 3).double(), torch.randn(1, 7, 3).double(), torch.tensor(pattern).bool()
    out, alone = attention(query, key, key_mask=kept[None]), attention(query, key[:, kept])
    torch.testing.assert_close(out.weights[..., kept], alone.weights)
    torch.testing.assert_close(out.context, alone.context)
    assert (out.weights[..., ~kept] == 0).all()


def test_an_attention_mask_moves_no_window():
    attention = LocalMonotonic(1, window=0, scorer=Dot(1))
    attn_mask = torch.tensor([[False, True, True], [True, True, True]])
    weights = attention(torch.zeros(1, 2, 1), torch.ones(1, 3, 1), attn_mask=attn_mask).weights
    torch.testing.assert_close(weights[0], torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))


def test_the_position_learns():
    torch.manual_seed(0)
    attention = LocalPredictive(5, window=3)
    attention(torch.randn(2, 3, 5), torch.randn(2, 7, 5)).weights[..., 2].sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in attention.parameters())


def test_long_sources_in_half_types_are_counted_right():
    # p = 1,001 and windows of three keys: bfloat16 knows only multiples of eight there.
    attention = LocalPredictive(1, window=1, scorer=Dot(1)).bfloat16()
    attention.position_weight.data.zero_()
    weights = attention(torch.zeros(1, 1, 1).bfloat16(), torch.ones(1, 2002, 1).bfloat16()).weights
    assert weights[0, 0].nonzero().squeeze(1).tolist() == [1000, 1001, 1002]


@pytest.mark.parametrize("build", [LocalMonotonic, LocalPredictive])
def test_a_scorer_brings_its_normalizer(build):
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    attention = build(5, window=2, scorer=Additive(5, normalizer=Sparsemax()))
    assert attention(query, key).weights.isfinite().all()
    assert isinstance(build(5).scorer, General)
    assert not LocalMonotonic(5, scorer=Dot(5, normalizer=Sigmoid())).normalized
    assert LocalMonotonic(5, scorer=Dot(5, normalizer=Sparsemax())).normalized


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"LocalMonotonic\(window=-1\): window must be 0 or more"):
        LocalMonotonic(5, window=-1)
    with pytest.raises(ConfigError, match=r"LocalPredictive\(window=0\): window must be 1 or more"):
        LocalPredictive(5, window=0)
    with pytest.raises(ConfigError, match=r"LocalPredictive\(position_size=0\): position_size must be 1 or more"):
        LocalPredictive(5, position_size=0)
    with pytest.raises(ConfigError, match=r"General\(key_size=0\): key_size must be 1 or more"):
        LocalMonotonic(5, key_size=0)
    with pytest.raises(ConfigError, match=r"key_size=7, scorer=Dot\(query_size=5, key_size=5\)\): build the scorer with"):
        LocalPredictive(5, key_size=7, scorer=Dot(5))
    with pytest.raises(ConfigError, match=r"LocalMonotonic\(scorer=Coverage\): expected a scorer without a state, such as"):
        LocalMonotonic(5, scorer=Coverage(5))


def test_a_state_of_another_batch_is_refused(unchecked):
    attention = LocalMonotonic(5)
    memory = attention.prepare(torch.zeros(2, 7, 5))
    with pytest.raises(ShapeError, match=r"state.position has shape \(1\), expected \(B\) = \(2\)"):
        attention.attend(torch.zeros(2, 1, 5), memory, PositionState(torch.tensor([3])))
