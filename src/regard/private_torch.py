"""Private functions of PyTorch for fast paths, each with a public fallback.

No other module of the package touches `torch._C`, `torch._dynamo`, `torch._inductor`, `torch._int_mm` or `torch.ops.mkldnn`.
If a version of PyTorch lacks one of these functions, results stay the same up to rounding, but code may be slower.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from jaxtyping import Float, Int8, Int32
from torch import Tensor, nn
from torch.nn import functional


def is_transformed() -> bool:
    """Return whether a transform of `torch.func` is active; without the private function, always True."""
    # Inside `vmap`, a tensor doesn't show whether its gradient is needed, so fast paths without gradients must not be taken.
    # The code without fast paths is correct in all cases.
    active = getattr(torch._C, "_are_functorch_transforms_active", None)
    return True if active is None else bool(active())


def forget_compiled(module: nn.Module) -> None:
    """Undo `module.compile()`."""
    if hasattr(module, "_compiled_call_impl"):
        module._compiled_call_impl = None


def can_pack(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether `pack_weight` and `packed_linear` use oneDNN's layout on this machine for weights of this dtype."""
    ops = torch.ops.mkldnn
    if not (
        torch.backends.mkldnn.is_available() and hasattr(ops, "_linear_pointwise") and hasattr(ops, "_reorder_linear_weight")
    ):
        return False
    if dtype == torch.bfloat16:  # some processors do not support it
        return hasattr(ops, "_is_mkldnn_bf16_supported") and bool(ops._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def pack_weight(weight: Float[Tensor, "V D"]) -> Tensor:
    """Convert the weight of a linear map to the layout of oneDNN's kernels.

    If `can_pack` is False for the dtype of the weight, return the weight unchanged.
    """
    return torch.ops.mkldnn._reorder_linear_weight(weight) if can_pack(weight.dtype) else weight


def packed_linear(rows: Float[Tensor, "R D"], weight: Tensor, bias: Float[Tensor, " V"] | None) -> Float[Tensor, "R V"]:
    """Apply a linear map whose weight comes from `pack_weight`."""
    if not can_pack(weight.dtype):
        return functional.linear(rows, weight, bias)
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found


def int8_product(rows: Int8[Tensor, "R D"], weight: Int8[Tensor, "D V"]) -> Int32[Tensor, "R V"]:
    """Return the product of two matrices of 8-bit integers on a CPU, in 32-bit integers."""
    # Without the private function, or if it is slow or not exact on this processor, the product is computed in float32. This is
    # exact for up to 1,040 columns of `rows` if all numbers are from −127 to 127; with more, sums can be rounded.
    found: Tensor = torch._int_mm(rows, weight) if _multiplies_int8() else (rows.float() @ weight.float()).int()
    return found


@cache
def _multiplies_int8() -> bool:
    """Return whether PyTorch's product of 8-bit integers is fast and exact on this processor."""
    # Without oneDNN, the product is a plain loop, which is slow. Without VNNI instructions, oneDNN adds pairs of products in 16
    # bits, which can overflow.
    if not hasattr(torch, "_int_mm") or not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):
        return False
    left, right = (torch.full(shape, 127, dtype=torch.int8) for shape in ((1, 64), (64, 16)))
    return bool((torch._int_mm(left, right) == 127**2 * 64).all())


def in_backward() -> bool:
    """Return whether a backward pass is running in this thread; without the private function, False."""
    current = getattr(torch._C, "_current_graph_task_id", None)
    return current is not None and current() >= 0


def without_modes() -> AbstractContextManager[object]:
    """Return a context in which no mode sees the calls of functions; without the private class, one that does nothing."""
    disable = getattr(torch._C, "DisableTorchFunction", nullcontext)
    context: AbstractContextManager[object] = disable()
    return context


def is_compiled(module: nn.Module) -> bool:
    """Return whether a module runs as compiled by `torch.compile` or `torch.jit`, so that hooks inside must not be added.

    Where `torch.compiler.set_stance("force_eager")` is active, results of `torch.compile` run like other modules.
    """
    compiled = type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None
    return (compiled and not _is_eager()) or isinstance(module, torch.jit.ScriptModule)


def _is_eager() -> bool:
    """Return whether PyTorch's stance is not to run compiled code; without the private variable, False."""
    frame = sys.modules.get("torch._dynamo.eval_frame")
    return getattr(getattr(frame, "_stance", None), "stance", "") == "force_eager"
