"""The Triton kernels of additive attention, beside the plain form that they must equal.

Without a GPU they run in Triton's interpreter (see `attention.interpreted`), which is exact about arithmetic and indices and
knows nothing of the compiler; that they compile for a GPU is a test of its own.
"""

import contextlib
import importlib.util
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
from attention import interpreted

from regard.attention import Additive, Concat, SumConcat, masked_softmax
from regard.attention.fast import additive_triton
from regard.attention.fast.additive_triton import is_fused
from regard.attention.scores.additive import plain_additive_scores

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


@contextlib.contextmanager
def process(**environment):
    """A process of its own with these variables; gives a function that calls another there."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.MonkeyPatch.context() as patch:
            for name, setting in environment.items():
                patch.setenv(name, setting)
            pool.submit(os.getpid).result()  # started, with the variables

        def call(function, **payload):
            return interpreted.unpack(pool.submit(interpreted.call, function, interpreted.pack(payload)).result(timeout=300))

        yield call


@pytest.fixture(scope="module")
def interpret():
    with process(TRITON_INTERPRET="1", JAXTYPING_DISABLE="1") as call:
        yield call


def tensors(batch, queries, keys, width, value_size, *, kind="ordinary", dtype=torch.float32, seed=0):
    """Query, key, value, score weight and the gradients of context and weights."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (batch, queries, width), (batch, keys, width), (batch, keys, value_size), (width,)
    query, key, value, weight = (torch.randn(*size, generator=generator) for size in sizes)
    if kind == "saturated":
        query *= 1e4
    if kind == "cancelling":  # ±1e4 in some columns, ±30 in others, and the sums are small again
        far = torch.tensor([1e4, -1e4, 30.0, -30.0, 0.0]).repeat(width)[:width]
        query, key = query.round(decimals=1) + far, key - far
    if kind == "one side":  # e^{2k} leaves float32 for some keys, so only some blocks take the tanh
        key[:, keys // 2 :] += 50
    grads = [torch.randn(batch, queries, n, generator=generator) for n in (value_size, keys)]
    return [x.to(dtype) for x in (query, key, value, weight)], grads


def a_mask(batch, queries, keys):
    """A mask with an empty row."""
    mask = torch.rand(batch, queries, keys, generator=torch.Generator().manual_seed(1)) > 0.3
    mask[0, 0] = False
    return mask


def plain(inputs, grads, mask, dtype):
    """What `interpreted.fused` gives, by the plain formula in the given type."""
    inputs = [x.detach().to(dtype).requires_grad_() for x in inputs]
    query, key, value, weight = inputs
    weights = masked_softmax(plain_additive_scores(query, key, weight), mask)
    outputs = [weights @ value, weights][: len(grads)]
    found = torch.autograd.grad(outputs, inputs, [g.to(dtype) for g in grads])
    return [x.detach() for x in (*outputs, *found)]


def assert_equal(found, inputs, grads, mask, *, tolerance=1e-5):
    truth = plain(inputs, grads, mask, torch.float64)
    rounded = plain(inputs, grads, mask, torch.float32)
    for name, a, b, c in zip(
        ("context", "weights", "query", "key", "value", "v")[-len(truth) :], found, truth, rounded, strict=True
    ):
        error, allowed = (a - b).abs().max(), 8 * (c - b).abs().max() + tolerance * b.abs().max().clamp(1e-2)
        assert a.isfinite().all(), name
        assert error <= allowed, (name, error, allowed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "weights"),
    [("ordinary", False), ("ordinary", True), ("saturated", True), ("cancelling", False), ("one side", True)],
)
def test_equals_the_plain_form(interpret, kind, weights):
    """Odd sizes: one width left over for a pair, edges in every block, two blocks of queries."""
    sizes = (2, 19, 21, 5, 7) if kind != "one side" else (1, 17, 140, 3, 18)
    inputs, grads = tensors(*sizes, kind=kind)
    mask = a_mask(*sizes[:3])
    found = interpret(interpreted.fused, inputs=inputs, grads=grads[: 1 + weights], mask=mask)
    assert_equal(found, inputs, grads[: 1 + weights], mask)
    assert not found[0][0, 0].any(), "an empty row has a context of zero"
    assert not found[1 + weights][0, 0].any(), "and its query no gradient"


@pytest.mark.slow
def test_large_weights_of_the_score_narrow_the_range(interpret):
    """v·(1 + e^{2x}) must not overflow where (1 + e^{2x})² does not."""
    inputs, grads = tensors(1, 16, 16, 4, 2)
    inputs[0][..., ::2] += 15
    inputs[3] *= 1e30
    found = interpret(interpreted.fused, inputs=inputs, grads=grads, mask=None)
    assert all(x.isfinite().all() for x in found)
    for a, b in zip(found, plain(inputs, grads, None, torch.float64)[:2], strict=False):
        torch.testing.assert_close(a.double(), b)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(interpret, dtype):
    inputs, grads = tensors(2, 9, 10, 6, 5, dtype=dtype)
    mask = a_mask(2, 9, 10)
    found = interpret(interpreted.fused, inputs=inputs, grads=grads, mask=mask)
    truth = plain(inputs, grads, mask, torch.float64)
    for a, b in zip(found, truth, strict=True):
        assert a.dtype == dtype
        assert (a - b).norm() <= 0.02 * b.norm()


@pytest.mark.slow
def test_shared_attention_masks_and_strides_are_followed(interpret):
    """(Q,K), and inputs whose axes are not in order."""
    inputs, grads = tensors(2, 5, 9, 4, 3)
    inputs = [x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.ndim == 3 else x for x in inputs]
    for mask in (torch.ones(5, 9).tril(4).bool(), torch.ones(9, 5).triu(-4).bool().t()):
        assert_equal(interpret(interpreted.fused, inputs=inputs, grads=grads, mask=mask), inputs, grads, mask)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 9), (2, 1, 9), (1, 5, 9)], ids=str)
def test_attention_masks_are_broadcast(interpret, shape):
    inputs, grads = tensors(2, 5, 9, 4, 3)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    assert_equal(interpret(interpreted.fused, inputs=inputs, grads=grads, mask=mask), inputs, grads, mask)


@pytest.mark.slow
def test_nan_behind_the_key_mask_does_not_leak(interpret):
    inputs, _ = tensors(2, 4, 6, 3, 5)
    masks = {"attn_mask": a_mask(2, 4, 6), "key_mask": a_mask(2, 3, 6)[:, 1]}
    clean = interpret(interpreted.public, inputs=inputs, masks=masks)
    for x in inputs[1:3]:
        x[~masks["key_mask"]] = torch.nan
    assert all(torch.equal(a, b) for a, b in zip(interpret(interpreted.public, inputs=inputs, masks=masks), clean, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Additive, Concat, SumConcat])
def test_layers_go_through_the_kernels(interpret, kind):
    torch.manual_seed(0)
    module, query, key = kind(6), torch.randn(2, 4, 6), torch.randn(2, 5, 6)
    key_mask = a_mask(2, 4, 5)[:, 1]
    wanted = module(query, key, key_mask=key_mask)
    arguments = {"module": module, "query": query, "key": key, "key_mask": key_mask}
    for need_weights in (True, False):
        context, weights, calls = interpret(interpreted.layer, **arguments, need_weights=need_weights)
        assert calls == 1
        torch.testing.assert_close(context, wanted.context)
        assert weights is None if not need_weights else torch.allclose(weights, wanted.weights, atol=1e-6)


@pytest.mark.slow
def test_slabs_bound_the_memory_and_change_nothing(interpret):
    """Neither pass makes a tensor of B·Q·K where weights are not asked for."""
    inputs, grads = tensors(1, 130, 40, 3, 2)
    whole = interpret(interpreted.fused, inputs=inputs, grads=grads[:1], mask=None)
    found, largest = interpret(interpreted.slabs, inputs=inputs, grads=grads[:1], mask=None)
    # 64 queries at a time; the exponentials are padded to a width of 64 and to whole blocks.
    assert largest <= max(64 * 40, 192 * 64)
    for a, b in zip(found, whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_full_graphs(interpret):
    inputs, _ = tensors(2, 3, 4, 3, 2)
    eager, compiled = interpret(interpreted.compiled, inputs=inputs)
    assert all(torch.equal(a, b) for a, b in zip(eager, compiled, strict=True))


def test_the_choice_is_made_by_device():
    inputs, _ = tensors(1, 8, 8, 4, 2)
    assert not is_fused(*inputs[:3])
    assert not is_fused(*(x.to("meta") for x in inputs[:3]))


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernels_compile_for_a_gpu(tmp_path, capability):
    """Types and shapes that the interpreter does not check; needs no GPU."""
    with process(TRITON_CACHE_DIR=str(tmp_path), JAXTYPING_DISABLE="1") as call:
        made = call(interpreted.compile_for_gpu, capability=capability)
    assert set(made) == {"attend", "recompute_weights", "gradient"}
    assert all(made.values())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("kind", ["ordinary", "saturated", "cancelling", "one side"])
@pytest.mark.parametrize("sizes", [(2, 19, 21, 5, 7), (3, 150, 260, 130, 200), (1, 64, 128, 1024, 520)], ids=str)
def test_on_a_gpu(kind, sizes):
    inputs, grads = tensors(*sizes, kind=kind)
    mask = a_mask(*sizes[:3])
    assert_equal(interpreted.fused(inputs, grads, mask, "cuda"), inputs, grads, mask, tolerance=1e-4)


class OnGPU:
    """A tensor's size, type and device."""

    device, dtype, shape = torch.device("cuda"), torch.float32, (16, 256, 256)


def test_the_kernels_can_be_turned_off(monkeypatch):
    monkeypatch.setattr(additive_triton, "_INSTALLED", True)
    monkeypatch.setattr(additive_triton, "_is_supported", lambda index: True)
    monkeypatch.delenv("REGARD_TRITON", raising=False)
    assert is_fused(OnGPU, OnGPU, OnGPU)
    monkeypatch.setenv("REGARD_TRITON", "0")
    assert not is_fused(OnGPU, OnGPU, OnGPU)


def test_kernels_that_cannot_be_compiled_are_not_used(monkeypatch):
    def fail(*arguments):
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(additive_triton, "_attend", fail)
    additive_triton._runs.cache_clear()
    with pytest.warns(UserWarning, match=r"do not run here, so slower operations are used \(Failed to find C compiler\)"):
        assert not additive_triton._runs(torch.device("cpu"))
    additive_triton._runs.cache_clear()
