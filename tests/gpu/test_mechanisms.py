"""Every mechanism on a GPU equals its formula, with the gradients that a CPU computes."""

import pytest
import torch
from contracts.attention_cases import CASES, expected
from contracts.battery import MASKS, gradients, inputs, made, masks

from regard.attention import MultiHead

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
pytestmark = pytest.mark.gpu
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 1e-2}
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def on_gpu(tensors):
    return tuple(x.cuda() for x in tensors)


def masks_on_gpu(kind):
    return {name: mask.cuda() for name, mask in masks(kind).items()}


@pytest.mark.parametrize("kind", MASKS)
@each_case
def test_equals_its_formula_and_has_the_gradients_of_a_cpu(case, kind):
    """In float64."""
    attention = made(case)
    tensors, kept = inputs(case, attention), masks(kind)
    context, weights = expected(case, attention, *tensors, **kept)
    wanted = gradients(attention, tensors, **kept)
    attention.cuda()
    out = attention(*on_gpu(tensors), **masks_on_gpu(kind))
    torch.testing.assert_close(out.weights.detach().cpu(), torch.from_numpy(weights), rtol=0, atol=1e-12)
    torch.testing.assert_close(out.context.detach().cpu(), torch.from_numpy(context), rtol=0, atol=3e-12)
    found = gradients(attention, on_gpu(tensors), **masks_on_gpu(kind))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "context"])
@each_case
def test_other_number_formats(case, dtype, need_weights):
    """Close to float64, with finite gradients, empty rows included."""
    if str(dtype).removeprefix("torch.") in case.refused:
        pytest.skip(case.refused[str(dtype).removeprefix("torch.")])
    kind = "key_with_empty_row"
    attention = made(case, dtype)
    tensors = inputs(case, attention, dtype=dtype)
    context, weights = expected(case, attention, *tensors, **masks(kind))
    attention.cuda()
    out = attention(*on_gpu(tensors), **masks_on_gpu(kind), need_weights=need_weights)
    assert out.context.dtype == dtype
    scale = max(1.0, abs(context).max())
    torch.testing.assert_close(
        out.context.detach().double().cpu(), torch.from_numpy(context), rtol=0, atol=TOLERANCE[dtype] * scale
    )
    if need_weights:
        torch.testing.assert_close(
            out.weights.detach().double().cpu(), torch.from_numpy(weights), rtol=0, atol=TOLERANCE[dtype]
        )
    found = gradients(attention, on_gpu(tensors), **masks_on_gpu(kind), need_weights=need_weights)
    assert all(gradient.isfinite().all() for gradient in found)


@pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "context"])
@each_case
def test_autocast(case, need_weights):
    attention = made(case, torch.float32)
    tensors = inputs(case, attention, dtype=torch.float32)
    context, _ = expected(case, attention, *tensors, **masks("both"))
    attention.cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = attention(*on_gpu(tensors), **masks_on_gpu("both"), need_weights=need_weights)
        found = gradients(attention, on_gpu(tensors), **masks_on_gpu("both"), need_weights=need_weights)
    scale = max(1.0, abs(context).max())
    torch.testing.assert_close(out.context.detach().double().cpu(), torch.from_numpy(context), rtol=0, atol=0.06 * scale)
    assert all(gradient.isfinite().all() for gradient in found)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("kind", ["none", "causal", "key"])
def test_long_sequences_without_weights(dtype, kind):
    """Sizes at which PyTorch's fused kernels run."""
    torch.manual_seed(0)
    attention = MultiHead(256, num_heads=8).double()
    x = torch.randn(2, 700, 256, dtype=torch.float64)
    kept = {}
    if kind == "causal":
        kept["attn_mask"] = torch.ones(700, 700, dtype=torch.bool).tril()
    if kind == "key":
        kept["key_mask"] = torch.arange(700) < torch.tensor([[700], [345]])
    wanted = attention(x, x, **kept)
    attention.to("cuda", dtype)
    kept = {name: mask.cuda() for name, mask in kept.items()}
    for need_weights in (True, False):
        out = attention(x.to("cuda", dtype), x.to("cuda", dtype), **kept, need_weights=need_weights)
        torch.testing.assert_close(out.context.double().cpu(), wanted.context, rtol=0, atol=TOLERANCE[dtype])
