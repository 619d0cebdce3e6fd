"""Triton's kernels without a GPU: calls for a process of their own, in which Triton interprets.

Triton decides when it is imported whether it compiles or interprets, for its own library too, and any test beside may have
imported it already. So `test_additive_triton` keeps one process that had TRITON_INTERPRET=1 from its start, and these are the
functions that it sends there; tensors travel as bytes.
"""

import io
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

from regard.attention import additive_attention
from regard.attention.fast.additive_triton import fused_additive_attention
from regard.attention.scores import additive


def call(function: Callable[..., Any], payload: bytes) -> bytes:
    """function(**payload), from bytes to bytes."""
    # NumPy, which computes here, tells of 1 / 0 and e^1000, where a GPU gives infinity in silence.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return pack(function(**unpack(payload)))


def pack(things: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(things, buffer)
    return buffer.getvalue()


def unpack(payload: bytes) -> Any:
    return torch.load(io.BytesIO(payload), weights_only=False)


def fused(inputs, grads, mask, device="cpu"):
    """Context, weights (None unless their gradient is given) and the gradients of the inputs."""
    inputs = [x.to(device).requires_grad_() for x in inputs]
    mask = None if mask is None else mask.to(device)
    outputs = [x for x in fused_additive_attention(*inputs, mask, need_weights=len(grads) == 2) if x is not None]
    found = torch.autograd.grad(outputs, inputs, [g.to(device, x.dtype) for g, x in zip(grads, outputs, strict=True)])
    return [x.detach().cpu() for x in (*outputs, *found)]


def public(inputs, masks):
    """`additive_attention` as it is on a GPU, with gradients of its context."""
    inputs = [x.requires_grad_() for x in inputs]
    with mock.patch.object(additive, "is_fused", return_value=True):
        context = additive_attention(*inputs, **masks, need_weights=False).context
    return [context.detach(), *torch.autograd.grad(context.sum(), inputs)]


def layer(module, query, key, key_mask, need_weights):
    """A layer as it is on a GPU, and whether it went through the kernels."""
    spy = mock.Mock(wraps=fused_additive_attention)
    patches = {"is_fused": mock.Mock(return_value=True), "fused_additive_attention": spy}
    with mock.patch.multiple(additive, **patches), torch.no_grad():
        out = module(query, key, key_mask=key_mask, need_weights=need_weights)
    return out.context, out.weights, spy.call_count


def compiled(inputs):
    """One node of a full graph, with its gradient."""
    inputs = [x.requires_grad_() for x in inputs]

    def context(*tensors):
        return fused_additive_attention(*tensors, need_weights=False)[0]

    compile = torch.compile(context, fullgraph=True, backend="aot_eager")
    return [torch.autograd.grad(f(*inputs).square().sum(), inputs) for f in (context, compile)]


def slabs(inputs, grads, mask):
    """The backward pass with slabs of 16 queries, and the largest tensor that any operation of either pass made."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            result = operation(*args, **(kwargs or {}))
            for x in torch.utils._pytree.tree_leaves(result):
                self.numel = max(self.numel, x.numel() if isinstance(x, torch.Tensor) else 0)
            return result

    with mock.patch("regard.attention.fast.additive_triton.SLAB", 1), Largest() as largest:
        return fused(inputs, grads, mask), largest.numel


def compile_for_gpu(capability):
    """The kernels and their bytes, compiled for an NVIDIA GPU of that compute capability, without having one."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from regard.attention.fast import additive_triton_kernels as kernels

    integers = {"start", "count", "own_start", "other_start", "own_count", "other_count", "mask_stride_b", "mask_stride_q"}
    integers |= {"Q", "K", "H", "D", "OWN", "OTHER", "PADDED_Q", "PADDED_K", "PADDED_H", "PADDED_OWN", "PADDED_OTHER"}
    pointers = dict.fromkeys(("query", "key", "value", "own_input", "other_input"), "*bf16") | {"mask": "*u8"}
    blocks = {"BLOCK_Q": 64, "BLOCK_K": 128, "BLOCK_D": 64, "BLOCK_N": 64, "BLOCK_M": 128, "BLOCK_H": 64}
    made = {}
    for kernel in (kernels.attend, kernels.recompute_weights, kernels.gradient):
        constants = {p.name: blocks.get(p.name, True) for p in kernel.params if p.is_constexpr}
        signature = {
            name: "constexpr" if name in constants else "i32" if name in integers else pointers.get(name, "*fp32")
            for name in kernel.arg_names
        }
        source = ASTSource(kernel, signature, constants)
        made[kernel.__name__] = len(triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"])
    return made
