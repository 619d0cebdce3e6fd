"""The additive scores without tanh, beside the plain form that they must equal."""

import pytest
import torch

from regard.attention import additive_attention, additive_scores, masked_softmax
from regard.attention.fast.additive import exponential, fast_additive_scores, is_fast
from regard.attention.scores.additive import plain_additive_scores
from regard.errors import ShapeError

SHAPES = [(2, 3, 5, 7), (1, 1, 1, 1), (40, 1, 9, 64), (3, 150, 70, 33), (2, 5, 300, 1024)]


def tensors(shape, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    b, q, k, h = shape
    return [
        (scale * torch.randn(*size, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
        for size in ((b, q, h), (b, k, h), (h,))
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["ordinary", "saturated", "cancelling"])
def test_scores_and_gradients_equal_the_plain_form(shape, kind):
    query, key, weight = tensors(shape)
    with torch.no_grad():
        if kind == "saturated":
            query.mul_(5e3)
        if kind == "cancelling":  # up to 1e4, and the sum is small again
            far = torch.linspace(-1e4, 1e4, shape[3], dtype=torch.float64)
            query.add_(far), key.sub_(far)
    plain = plain_additive_scores(query, key, weight)
    gradient = torch.randn_like(plain)
    wanted = torch.autograd.grad(plain, (query, key, weight), gradient)
    for ready in (None, exponential(key)):
        fast = fast_additive_scores(query, key, weight, ready)
        torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)
        found = torch.autograd.grad(fast, (query, key, weight), gradient)
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_error_in_float32_is_at_most_twice_that_of_the_plain_form(scale):
    query, key, weight = (x.detach() for x in tensors((3, 40, 70, 256), torch.float32, scale))
    truth = plain_additive_scores(query.double(), key.double(), weight.double())
    error = [
        (f(query, key, weight).double() - truth).square().mean() ** 0.5 for f in (fast_additive_scores, plain_additive_scores)
    ]
    # Of something tiny tanh has a relative error and this form an absolute one.
    floor = 2e-7 * weight.double().norm()
    assert error[0] <= max(2 * error[1], floor)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(dtype):
    query, key, weight = tensors((2, 30, 40, 64), dtype)
    scores = fast_additive_scores(query, key, weight)
    assert scores.dtype == dtype
    exact = plain_additive_scores(query.float(), key.float(), weight.float())
    assert torch.equal(scores, exact.to(dtype)) or (scores.float() - exact).abs().max() <= exact.abs().max() * 2**-8
    scores.sum().backward()
    assert all(x.grad.dtype == dtype and x.grad.isfinite().all() for x in (query, key, weight))


@pytest.mark.parametrize("kinds", [(torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)], ids=str)
def test_query_and_key_of_two_types(kinds):
    query, key, weight = (x.detach() for x in tensors((2, 3, 5, 7), torch.float32))
    query, key = query.to(kinds[0]), key.to(kinds[1])
    plain, fast = (form(query, key, weight) for form in (plain_additive_scores, fast_additive_scores))
    torch.testing.assert_close(fast, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_under_autocast_the_type_is_that_of_the_plain_form_and_the_sum_more_exact(dtype):
    query, key, weight = (x.detach() for x in tensors((2, 30, 40, 64), dtype))
    exact = plain_additive_scores(query.double(), key.double(), weight.double())
    with torch.autocast("cpu", torch.bfloat16):
        plain, fast = (form(query, key, weight) for form in (plain_additive_scores, fast_additive_scores))
    assert fast.dtype == plain.dtype
    assert torch.equal(fast, exact.to(fast.dtype)) or (fast - exact).abs().max() <= exact.abs().max() * 2**-8


@pytest.mark.parametrize("shape", [(0, 3, 5, 7), (2, 0, 5, 7), (2, 3, 0, 7), (2, 3, 5, 0)], ids=str)
def test_sizes_of_zero(shape):
    query, key, weight = tensors(shape)
    scores = fast_additive_scores(query, key, weight)
    assert torch.equal(scores, torch.zeros(shape[:3], dtype=torch.float64))
    for x, grad in zip((query, key, weight), torch.autograd.grad(scores.sum(), (query, key, weight)), strict=True):
        assert torch.equal(grad, torch.zeros_like(x))


def test_gradcheck():
    assert torch.autograd.gradcheck(fast_additive_scores, tensors((2, 3, 5, 7)))


def test_a_second_derivative_is_refused():
    query, key, weight = tensors((2, 3, 5, 7))
    (gradient,) = torch.autograd.grad(fast_additive_scores(query, key, weight).sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match=r"use regard.attention.scores.additive.plain_additive_scores, which has one"):
        torch.autograd.grad(gradient.sum(), query)


@pytest.mark.parametrize("wanted", [(0,), (1, 2), (2,)], ids=str)
def test_some_of_the_gradients(wanted):
    leaves = tensors((2, 3, 5, 7))
    full = torch.autograd.grad(fast_additive_scores(*leaves).sum(), leaves)
    some = [x if i in wanted else x.detach() for i, x in enumerate(leaves)]
    found = torch.autograd.grad(fast_additive_scores(*some).sum(), [leaves[i] for i in wanted])
    assert all(torch.equal(a, full[i]) for a, i in zip(found, wanted, strict=True))


def test_transforms_of_torch_func_use_the_plain_form():
    query, key, weight = (x.detach() for x in tensors((4, 64, 64, 64)))
    assert is_fast(query, key)
    grad = torch.func.grad(lambda q: additive_scores(q, key, weight).sum())(query)
    query.requires_grad_()
    torch.testing.assert_close(grad, torch.autograd.grad(additive_scores(query, key, weight).sum(), query)[0])
    rows = torch.func.vmap(lambda q, k: additive_scores(q[None], k[None], weight)[0])(query.detach(), key)
    torch.testing.assert_close(rows, additive_scores(query.detach(), key, weight))


def test_nan_and_infinity_are_what_the_plain_form_makes_of_them():
    query, key, weight = (x.detach() for x in tensors((2, 3, 5, 7)))
    query[0, 1, 2], key[1, 4, 0] = float("nan"), float("inf")
    plain, fast = plain_additive_scores(query, key, weight), fast_additive_scores(query, key, weight)
    torch.testing.assert_close(fast, plain, equal_nan=True, rtol=1e-12, atol=1e-12)


def test_it_is_chosen_by_size():
    large, small = torch.empty(4, 64, 256), torch.empty(1, 1, 8)
    assert is_fast(large, large)
    assert not is_fast(small, small)
    assert not is_fast(large[:, :1], large)
    assert is_fast(large[:, :1], large, exponential(large))


def test_attention_from_projected_queries_and_keys():
    query, key, weight = (x.detach() for x in tensors((2, 3, 5, 7)))
    value = torch.randn(2, 5, 11, dtype=torch.float64)
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    value[0, 2], key[0, 2] = float("nan"), float("nan")
    out = additive_attention(query, key, value, weight, key_mask=mask)
    weights = masked_softmax(plain_additive_scores(query, key.nan_to_num(), weight), mask[:, None])
    torch.testing.assert_close(out.weights, weights)
    torch.testing.assert_close(out.context, weights @ value.nan_to_num())
    assert additive_attention(query, key, value, weight, key_mask=mask, need_weights=False).weights is None


def test_a_wrong_width_is_named(unchecked):
    with pytest.raises(ShapeError, match=r"key has shape \(2, 5, 6\), expected \(B, K, H\) = \(2, 5, 7\)"):
        additive_scores(torch.zeros(2, 3, 7), torch.zeros(2, 5, 6), torch.zeros(7))
