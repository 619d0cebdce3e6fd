"""The compiled loops of the additive scores, beside the plain form that they must equal."""

import pytest
import torch

from regard.attention import Additive, additive_attention, additive_scores
from regard.attention.additive import plain_additive_scores
from regard.attention.kernels import additive, additive_compiled
from regard.attention.kernels.additive import exponential
from regard.private_torch import has_compiler, recompile_limit_error


def inductor(test):
    """With the real compiler, whose own imports warn."""
    marks = pytest.mark.compile, pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
    missing = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler here")
    for mark in (*marks, missing):
        test = mark(test)
    return test


SHAPES = [(2, 3, 5, 7), (1, 1, 1, 1), (40, 1, 9, 64), (3, 50, 70, 33)]


def tensors(shape, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    b, q, k, h = shape
    return [scale * torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((b, q, h), (b, k, h), (h,))]


@pytest.fixture
def plainly(monkeypatch):
    """The loops as PyTorch runs them eagerly: their formulas, without the minute that compiling takes."""
    monkeypatch.setattr(additive_compiled, "_compiled", lambda function: function)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("ready", [False, True])
def test_scores_and_gradients_equal_the_plain_form(shape, scale, ready, plainly):
    exact = [x.requires_grad_() for x in tensors(shape, scale)]
    query, key, weight = (x.detach().float() for x in exact)
    made = exponential(key) if ready and additive_compiled.in_range(query, key, exponential(key)) else None
    truth = plain_additive_scores(*exact)
    found = additive_compiled.scores(query, key, weight, made)
    size = float(weight.norm()) * 3e-6
    torch.testing.assert_close(found.double(), truth.detach(), rtol=2e-6, atol=size)
    grad = torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))
    wanted = torch.autograd.grad(truth, exact, grad.double())
    for one, other in zip(additive_compiled.gradients(grad, query, key, weight, made, [True] * 3), wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=float(other.abs().max()) * 1e-5 + size)


def test_only_the_gradients_asked_for_are_computed(plainly):
    query, key, weight = (x.float() for x in tensors((2, 3, 5, 7)))
    grad = torch.ones(2, 3, 5)
    full = additive_compiled.gradients(grad, query, key, weight, None, [True] * 3)
    for needs in ([True, False, False], [False, True, False], [False, False, True]):
        for need, one, other in zip(
            needs, additive_compiled.gradients(grad, query, key, weight, None, needs), full, strict=True
        ):
            assert torch.equal(one, other) if need else one.numel() == 0


def test_cancelling_inputs_up_to_the_range_keep_their_precision(plainly):
    far = torch.linspace(-42, 42, 64)
    query, key, weight = (x.float() for x in tensors((2, 3, 5, 64), 0.5))
    query, key = query * 0.5 + far, key * 0.5 - far
    truth = plain_additive_scores(query.double(), key.double(), weight.double())
    assert additive_compiled.in_range(query, key)
    torch.testing.assert_close(additive_compiled.scores(query, key, weight).double(), truth, rtol=0, atol=3e-5)


@pytest.mark.parametrize("bad", [43.5, -1e4, float("nan"), float("inf")])
def test_beyond_the_range_is_said_to_be(bad):
    query, key, _ = (x.float() for x in tensors((2, 3, 5, 7)))
    assert additive_compiled.in_range(query, key)
    for x in (query, key):
        before = x[1, 2, 3].clone()
        x[1, 2, 3] = bad
        assert not additive_compiled.in_range(query, key)
        x[1, 2, 3] = before
    key[0, 0, 0] = bad
    assert not additive_compiled.in_range(query, key, exponential(key))


def test_chosen_by_size_type_and_device(monkeypatch):
    monkeypatch.setattr(additive_compiled, "has_compiler", lambda: True)
    large, small = torch.empty(4, 64, 64, device="meta"), torch.empty(1, 1, 64, device="meta")
    here = torch.empty(4, 128, 64)
    assert additive_compiled.is_compiled(here, here)
    assert not additive_compiled.is_compiled(here[:1, :1], here)
    assert not additive_compiled.is_compiled(here.double(), here.double())
    assert not additive_compiled.is_compiled(large, large)
    assert not additive_compiled.is_compiled(small, large)
    monkeypatch.setattr(additive_compiled, "has_compiler", lambda: False)
    assert not additive_compiled.is_compiled(here, here)


@inductor
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_under_inductor(dtype, monkeypatch):
    """The real thing: compiled by the caller, compiled inside, several sizes, beyond the range too."""
    calls = []
    monkeypatch.setattr(additive_compiled, "scores", lambda *x, f=additive_compiled.scores: calls.append(1) or f(*x))
    compiled = torch.compile(additive_scores, fullgraph=True)
    for shape, scale in (((4, 70, 90, 64), 1.0), ((3, 90, 80, 64), 1.0), ((4, 70, 90, 64), 100.0)):
        leaves = [x.to(dtype).requires_grad_() for x in tensors(shape, scale)]
        exact = [x.detach().double().requires_grad_() for x in leaves]
        out, truth = compiled(*leaves), plain_additive_scores(*exact)
        grad = torch.randn(truth.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(dtype)
        found, wanted = torch.autograd.grad(out, leaves, grad), torch.autograd.grad(truth, exact, grad.double())
        near = 1e-4 if dtype == torch.float32 else 2e-2
        for one, other in zip((out, *found), (truth, *wanted), strict=True):
            torch.testing.assert_close(one.double(), other, rtol=near, atol=float(other.detach().abs().max()) * near)
    assert len(calls) == 2  # not for the saturated one, whose blocks take the tanh


def test_blocks_serve_where_the_compiler_gives_up(monkeypatch):
    def give_up(*tensors, **more):
        raise recompile_limit_error()("too many recompilations")

    for name in ("scores", "gradients"):
        monkeypatch.setattr(additive_compiled, name, give_up)
    monkeypatch.setattr(additive_compiled, "is_compiled", lambda query, key: True)
    monkeypatch.setattr(additive, "is_compiled", lambda query, key: True)
    query, key, weight = (x.float() for x in tensors((2, 3, 5, 7)))
    found = torch.ops.regard.additive_scores(query, key, weight, None, True)
    torch.testing.assert_close(found, plain_additive_scores(query, key, weight))
    grads = torch.ops.regard.additive_scores_backward(found, query, key, weight, None, [True] * 3, True)
    for one, other in zip(grads, additive.additive_scores_backward(found, query, key, weight), strict=True):
        assert torch.equal(one, other)


@inductor
def test_the_layer_and_the_function_under_inductor():
    torch.manual_seed(0)
    layer = Additive(64, key_size=48, attention_size=64)
    query, key, mask = torch.randn(4, 70, 64), torch.randn(4, 90, 48), torch.rand(4, 90) < 0.7
    torch.testing.assert_close(
        torch.compile(layer, fullgraph=True)(query, key, key_mask=mask).context,
        layer(query, key, key_mask=mask).context,
        rtol=1e-4,
        atol=1e-5,
    )
    q, k, v = (x.float() for x in tensors((4, 70, 90, 64)))
    value = torch.randn(4, 90, 13)
    one = torch.compile(additive_attention, fullgraph=True)(q, k, value, v, key_mask=mask)
    torch.testing.assert_close(one.context, additive_attention(q, k, value, v, key_mask=mask).context, rtol=1e-4, atol=1e-5)
