"""Scans of linear attention and Gated DeltaNet by the Triton kernels of `flash-linear-attention` (fla, extra `gpu`).

They replace the chunks of PyTorch operations (`scan_chunks` of both mechanisms) on NVIDIA GPUs, for values in half precision.
This module has not run on a GPU yet. On an H100, fla's Gated DeltaNet took 2.9 ms where ours took 37.9 ms (4,096 tokens of
width 1,024).

fla chooses the sizes of its blocks by measuring time, so that the last bits differ from process to process. Therefore, ours
are used in PyTorch's deterministic mode, which is on in training unless `training.deterministic` is false.
"""

import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from regard.private_torch import is_transformed

Scan = Callable[..., tuple[Tensor, Tensor]]

_INSTALLED = importlib.util.find_spec("fla") is not None and importlib.util.find_spec("triton") is not None
# Relative difference, in the norm, up to which the kernels agree with our chunks in float32. Rounding to bfloat16 gives 0.004.
_TOLERANCE = 0.02
# Widest heads that the kernels of Gated DeltaNet support.
_WIDEST = 256


def scan_fast(name: str, plain: Scan, *inputs: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return `plain(query, key, value[, gates], summary)` for heads (B,H,T,·) in float32; fla's kernel computes in `dtype`."""
    if _suits(inputs[0], dtype) and _agrees(name, plain, dtype, inputs[0].device):
        return _KERNELS[name](dtype, *inputs)
    return plain(*inputs)


def _suits(query: Tensor, dtype: torch.dtype) -> bool:
    """Return whether the kernels may be used for these queries, if they work on this machine."""
    if not _INSTALLED or not query.is_cuda or torch.version.hip is not None or os.environ.get("REGARD_FLA") == "0":
        return False
    half = dtype in (torch.float16, torch.bfloat16) and query.shape[-1] <= _WIDEST
    repeats = torch.are_deterministic_algorithms_enabled()
    return half and not repeats and not torch.compiler.is_compiling() and not is_transformed()


def _linear(dtype: torch.dtype, query: Tensor, key: Tensor, value: Tensor, summary: Tensor) -> tuple[Tensor, Tensor]:
    ops: Any = importlib.import_module("fla.ops.linear_attn")
    heads = [one.transpose(1, 2).to(dtype) for one in (query, key, value)]
    found, after = ops.chunk_linear_attn(*heads, scale=1.0, initial_state=summary, output_final_state=True, normalize=False)
    return found.transpose(1, 2).to(query.dtype), after.to(summary.dtype)


def _gated_delta(
    dtype: torch.dtype, query: Tensor, key: Tensor, value: Tensor, gates: Tensor, summary: Tensor
) -> tuple[Tensor, Tensor]:
    ops: Any = importlib.import_module("fla.ops.gated_delta_rule")
    heads = [one.transpose(1, 2).to(dtype) for one in (query, key, value)]
    decay, rate = gates.transpose(1, 2).unbind(-1)
    found, after = ops.chunk_gated_delta_rule(
        *heads, g=decay.contiguous(), beta=rate.to(dtype), scale=1.0, initial_state=summary, output_final_state=True
    )
    return found.transpose(1, 2).to(query.dtype), after.to(summary.dtype)


_KERNELS: dict[str, Scan] = {"linear": _linear, "gated_delta": _gated_delta}


@cache
def _agrees(name: str, plain: Scan, dtype: torch.dtype, device: torch.device) -> bool:
    """Return whether a kernel's results and gradients equal ours on this machine; if not, warn once."""
    try:
        found, expected = (_example(run, name, device) for run in (partial(_KERNELS[name], dtype), plain))
        worst = max(float((one - other).norm() / other.norm()) for one, other in zip(found, expected, strict=True))
        problem = "" if worst < _TOLERANCE else f"its results differ by {worst:.1%}"
    except Exception as error:  # whatever the compiler, another version of Triton or fla itself raises
        problem = f"{type(error).__name__}: {' '.join(str(error).split()):.200}"
    if problem:
        warnings.warn(
            f"fla's kernel for {name.replace('_', ' ')} is not used on this GPU ({problem}), so slower operations are; set the "
            "environment variable REGARD_FLA to 0 to avoid this attempt",
            stacklevel=2,
        )
    return not problem


@torch.inference_mode(False)
def _example(run: Scan, name: str, device: torch.device) -> list[Tensor]:
    """Return the results and all gradients of a scan over random inputs, over two chunks and with an earlier summary."""
    draw = torch.Generator().manual_seed(0)  # not the global generator, whose numbers belong to the caller
    query, key = torch.rand(2, 2, 3, 100, 64, generator=draw).unbind()
    inputs = [query / 8, key / key.norm(dim=-1, keepdim=True), torch.randn(2, 3, 100, 64 + (name == "linear"), generator=draw)]
    if name == "gated_delta":
        inputs.append(torch.rand(2, 3, 100, 2, generator=draw) * torch.tensor([-0.25, 1.0]))
    inputs.append(torch.randn(2, 3, 64, inputs[2].shape[-1], generator=draw))
    inputs = [one.to(device).requires_grad_() for one in inputs]
    with torch.enable_grad(), torch.autocast(device.type, enabled=False):
        found, after = run(*inputs)
        gradients = torch.autograd.grad(found.square().sum() + after.sum(), inputs)
    return [found.detach(), after.detach(), *gradients]
