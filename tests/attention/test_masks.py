"""Masks: their making, their checks, and the softmax under them."""

import pytest
import torch

from regard.attention import causal_mask, masked_softmax, padding_mask, window_mask, zero_masked
from regard.attention.masks import Masks, resolve_masks
from regard.errors import ShapeError


def test_masks_of_positions():
    assert padding_mask(torch.tensor([0, 2]), 3).tolist() == [[False] * 3, [True, True, False]]
    assert padding_mask(torch.tensor([], dtype=torch.long)).shape == (0, 0)
    assert causal_mask(2, 3).int().tolist() == [[1, 1, 0], [1, 1, 1]]
    assert window_mask(3, before=1).int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert window_mask(3, before=0, after=1).int().tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
    with pytest.raises(ShapeError, match=r"window_mask\(before=-1, after=0\): both sides of a window must be 0 or more"):
        window_mask(3, before=-1)


def test_masks_join_where_both_allow():
    key_mask = torch.tensor([[True, True, False], [True, False, True]])
    masks = resolve_masks(key_mask, causal_mask(2, 3), batch=2, queries=2, keys=3)
    assert masks.mask.int().tolist() == [[[1, 1, 0], [1, 1, 0]], [[1, 0, 0], [1, 0, 1]]]
    assert masks.empty is None
    heads = resolve_masks(key_mask, torch.ones(2, 5, 2, 3, dtype=torch.bool), batch=2, queries=2, keys=3, heads=5)
    assert heads.mask.shape == (2, 5, 2, 3)
    assert resolve_masks(None, None, batch=2, queries=2, keys=3) == Masks()


def test_an_empty_row_is_opened_and_marked():
    key_mask, bias = torch.tensor([[True, False], [False, False]]), torch.tensor([[0.5, -torch.inf]], dtype=torch.float16)
    masks = resolve_masks(key_mask, None, bias, batch=2, queries=1, keys=2)
    assert masks.mask.tolist() == [[[True, False]], [[True, True]]]
    assert masks.empty.tolist() == [[[False]], [[True]]]
    assert masks.allowed.tolist() == [[[True, False]], [[False, False]]]
    assert masks.bias.dtype == torch.float32
    assert masks.bias.tolist() == [[0.5, 0.0]]
    assert masks.within(torch.tensor([[False, True]])).empty.all()


def test_a_mask_of_a_batch_is_not_taken_for_one_of_queries():
    with pytest.raises(ShapeError, match=r"attn_mask has shape \(2, 3\), expected \(Q, K\) = \(4, 3\) or \(B, Q, K\)"):
        resolve_masks(None, torch.ones(2, 3, dtype=torch.bool), batch=2, queries=4, keys=3)


def test_a_mask_of_numbers_is_refused_with_the_way_to_convert_it(unchecked):
    with pytest.raises(
        ShapeError, match=r"key_mask is int64, expected a boolean mask.*key_mask.bool\(\).*key_mask == 0.*~key_mask"
    ):
        zero_masked(torch.ones(2, 3, 1), torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(ShapeError, match="mask is float32, expected a boolean mask"):
        masked_softmax(torch.zeros(2, 3), torch.ones(2, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_softmax_ignores_what_is_masked(dtype):
    scores = torch.tensor([[1.0, float("nan"), 2.0], [float("inf"), 3.0, float("-inf")]], dtype=dtype, requires_grad=True)
    mask = torch.tensor([[True, False, True], [False, False, False]])
    weights = masked_softmax(scores, mask)
    assert weights.dtype == dtype
    assert weights[0, 1] == 0
    assert (weights[1] == 0).all()
    torch.testing.assert_close(
        weights[0, [0, 2]].double(), torch.tensor([1.0, 2.0], dtype=torch.float64).softmax(-1), atol=4e-3, rtol=0
    )
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[~mask] == 0).all()


def test_softmax_of_large_scores_in_half_precision():
    weights = masked_softmax(torch.tensor([[6e4, 6e4, -6e4]], dtype=torch.float16), torch.tensor([[True, True, True]]))
    assert weights.tolist() == [[0.5, 0.5, 0.0]]
