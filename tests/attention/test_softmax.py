"""The softmax of few keys is PyTorch's."""

import pytest
import torch

from regard.attention.fast.softmax import softmax


@pytest.mark.parametrize("keys", [0, 1, 2, 15, 16, 17])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_values_and_gradients(keys, dtype):
    torch.manual_seed(0)
    scores = (10 * torch.randn(3, 4, keys)).to(dtype).requires_grad_()
    weights = softmax(scores)
    expected = scores.double().softmax(-1)
    assert weights.shape == expected.shape
    assert weights.dtype == dtype
    close = {"rtol": 0, "atol": 2 * torch.finfo(dtype).eps}
    torch.testing.assert_close(weights.double(), expected, **close)
    upstream = torch.randn(3, 4, keys).to(dtype)
    [gradient] = torch.autograd.grad(weights, scores, upstream)
    [right] = torch.autograd.grad(expected, scores, upstream.double())
    torch.testing.assert_close(gradient.double(), right.double(), rtol=0, atol=16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("keys", [3, 40])
def test_huge_scores_what_is_forbidden_and_another_type(keys):
    scores = torch.full((2, keys), -3e38)
    scores[0, 0] = 3e38
    scores[1, 1:] = -torch.inf
    expected = torch.zeros(2, keys)
    expected[:, 0] = 1
    assert torch.equal(softmax(scores), expected)
    assert softmax(scores.bfloat16(), torch.float32).dtype == torch.float32


def test_within_vmap_and_a_second_derivative():
    scores = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(torch.vmap(softmax)(scores), scores.softmax(-1))
    assert torch.autograd.gradgradcheck(softmax, (scores,))
