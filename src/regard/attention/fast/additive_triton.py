"""Additive attention in Triton: one kernel computes the context from projected queries and keys, with mask and softmax.

    context_i = Σ_j w_ij value_j        w_i = softmax_j Σ_h v_h tanh(q_ih + k_jh)

The forward pass never stores the (B,Q,K,H) tensor, and it stores the (B,Q,K) tensor only if weights are needed. The backward
pass computes the weights again from q and k, for one slab (group of neighbouring queries) at a time, so memory does not grow
with Q·K. No atomic additions are used, so equal inputs give identical results. Scores and softmax are computed in float32 for
all input types. `additive_triton_kernels` contains the arithmetic.

On an H100 in float32, the forward pass takes 4.4 ms, and the plain operations 56.6 ms, at B,Q,K,H,Dv = 16,1024,1024,512,512.
docs/explanation/kernels.md has more measurements, also with gradients, and derives the minimum cost.
"""

import contextlib
import importlib.util
import os
import warnings
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.private_torch import is_transformed

# Number of elements (B·Q·K·H) below which the plain form is used. On an H100, the kernels are slower there, because they start
# more operations.
SMALL = 1 << 28
# Number of queries below which the plain form is used: Triton's matrix products need blocks of 16, which would be mostly empty.
FEW = 8
# Maximum number of weights (B·queries·K) in memory at once in the backward pass: 16 MB per tensor.
SLAB = 1 << 22
_INSTALLED = importlib.util.find_spec("triton") is not None
_HALF = (torch.float16, torch.bfloat16)


def is_fused(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether the kernels support this device, these types and these sizes, work here, and are not turned off."""
    # They support NVIDIA GPUs from compute capability 8.0 on, for which they were only compiled; they ran on an H100.
    # Transforms of `torch.func` need the plain form.
    if query.device.type != "cuda" or not _INSTALLED or os.environ.get("REGARD_TRITON") == "0" or is_transformed():
        return False
    (batch, queries, width), keys = query.shape, key.shape[1]
    known = all(x.dtype in (torch.float32, *_HALF) for x in (query, key, value))
    return known and queries >= FEW and batch * queries * keys * width >= SMALL and _is_supported(query.device.index or 0)


def _is_supported(index: int) -> bool:
    known = torch.version.hip is None and torch.cuda.get_device_properties(index).major >= 8
    return known and (torch.compiler.is_compiling() or _runs(torch.device("cuda", index)))


@cache
def _runs(device: torch.device) -> bool:
    """Return whether Triton can compile a kernel on this machine, for which it needs a C compiler."""
    rows = torch.zeros(1, 16, 16, device=device)
    try:
        _attend(rows, rows, rows, rows[0, 0], None, False)
    except Exception as error:
        warnings.warn(
            f"the Triton kernels of additive attention do not run here, so slower operations are used ({error}); set the "
            "environment variable REGARD_TRITON to 0 to avoid this attempt",
            stacklevel=2,
        )
        return False
    return True


def fused_additive_attention(
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    value: Float[Tensor, "B K Dv"],
    score_weight: Float[Tensor, " H"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    need_weights: bool = True,
) -> tuple[Float[Tensor, "B Q Dv"], Float[Tensor, "B Q K"] | None]:
    """Return the context of additive attention and, if they are needed, the weights, in the types of the plain form.

    Keys and values must be finite at masked positions; the mask broadcasts to (B,Q,K).
    """
    if mask is not None:
        mask = mask.expand(*query.shape[:2], key.shape[1])  # a view, whose strides the kernels follow
    weights_dtype = torch.promote_types(query.dtype, key.dtype)
    device = query.device.type
    if torch.is_autocast_enabled(device):
        value, weights_dtype = value.to(torch.get_autocast_dtype(device)), torch.float32
    context, weights, _ = torch.ops.regard.additive_attention(query, key, value, score_weight, mask, need_weights)
    return context.to(value.dtype), weights.to(weights_dtype) if need_weights else None


@dataclass(frozen=True)
class _Side:
    """Prepared rows of the queries or of the keys, padded to whole blocks so that the inner loops need no checks of edges."""

    given: Tensor
    """The given rows (B,N,H)."""
    rows: Tensor
    """e^{2·given} (B,N',H') float32, where N' and H' are N and H with padding; zero in the padding."""
    pairs: Tensor
    """The numbers of `rows` as (B,H'/2,N',2): each pair holds two neighbouring features, which share a reciprocal."""
    highest: Tensor
    """max_h 2·given (B,N') float32, −∞ in the padding. The kernels use it to check that exponentials stay in range. For the
    queries, `_Problem` adds log max(1, max_h |v_h|).
    """
    block: int

    @classmethod
    def of(cls, given: Tensor, block: int) -> "_Side":
        given = given.contiguous()
        (batch, size, width) = given.shape
        padded, padded_width = _round_up(size, block), _round_up(width, 64)
        rows = given.new_zeros(batch, padded, padded_width, dtype=torch.float32)
        rows[:, :size, :width].copy_(given).mul_(2).exp_()
        highest = given.new_full((batch, padded), -torch.inf, dtype=torch.float32)
        highest[:, :size].copy_(given.amax(-1)).mul_(2)
        pairs = rows.unflatten(2, (-1, 2)).transpose(1, 2).contiguous()
        return cls(given, rows, pairs, highest, block)


class _Problem:
    """Arguments that all kernels need: queries, keys, v, mask and sizes."""

    def __init__(self, query: Tensor, key: Tensor, score_weight: Tensor, mask: Tensor | None) -> None:
        self.query = _Side.of(query, _block(query.shape[1], 64))
        self.key = _Side.of(key, _block(key.shape[1], 128))
        (self.batch, self.queries, self.width), self.keys = query.shape, key.shape[1]
        self.v = nn.functional.pad(score_weight.float(), (0, self.query.rows.shape[2] - self.width))
        # v multiplies a denominator before the division, so a large |v| leaves a smaller range for the exponents.
        self.query.highest.add_(self.v.abs().amax().clamp_min(1).log())
        if mask is not None and mask.stride(2) != 1 and mask.shape[2] != 1:
            mask = mask.contiguous()  # rows must be contiguous; an expanded axis B or Q stays expanded
        self.mask = None if mask is None else mask.view(torch.uint8)
        self.native = not _is_interpreted()

    def inputs(self) -> tuple[Any, ...]:
        q, k, unused = self.query, self.key, self.v
        return q.pairs, k.pairs, q.highest, k.highest, q.given, k.given, self.v, unused if self.mask is None else self.mask

    def sizes(self) -> tuple[int, ...]:
        return self.queries, self.keys, self.width

    def strides(self) -> tuple[int, ...]:
        mask = (0, 0) if self.mask is None else (self.mask.stride(0), self.mask.stride(1))
        return self.query.rows.shape[1], self.key.rows.shape[1], self.query.rows.shape[2], *mask


@torch.library.custom_op("regard::additive_attention", mutates_args=())
def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_weight: Tensor,
    mask: Tensor | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return context, weights (empty if not needed) and logarithms of the softmax's denominators, all in float32."""
    (batch, queries, _), (keys, value_size) = query.shape, value.shape[1:]
    context = query.new_zeros(batch, queries, value_size, dtype=torch.float32)
    log_sum = query.new_zeros(batch, queries, dtype=torch.float32)
    weights = query.new_empty((batch, queries, keys) if need_weights else 0, dtype=torch.float32)
    if not (query.numel() and key.numel()):
        return context, weights, log_sum
    problem = _Problem(query, key, score_weight, mask)
    q, k = problem.query, problem.key
    grid = (batch * q.rows.shape[1] // q.block,)
    with _on(query):
        _kernels().attend[grid](
            *problem.inputs()[:6], value.contiguous(), *problem.inputs()[6:], context, log_sum, weights,
            *problem.sizes(), value_size, *problem.strides(), problem.mask is not None, need_weights,
            q.block, k.block, _block(value_size, 32 if value.dtype == torch.float32 else 64), problem.native,
            num_stages=1,  # needs at most 96 KB of shared memory, which every GPU from 8.0 on has
        )  # fmt: skip
    if need_weights:  # until here, `weights` holds the scores, −∞ where masked
        weights.sub_(log_sum[..., None]).exp_()
    return context, weights, log_sum


@torch.library.custom_op("regard::additive_attention_backward", mutates_args=())
def _backward(
    grad_context: Tensor,
    grad_weights: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_weight: Tensor,
    mask: Tensor | None,
    log_sum: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grads = [torch.zeros_like(x, dtype=torch.float32, memory_format=torch.contiguous_format) for x in (query, key, value)]
    grad_q, grad_k, grad_value = grads
    grad_v = torch.zeros_like(score_weight, dtype=torch.float32)
    if query.numel() and key.numel():
        problem = _Problem(query, key, score_weight, mask)
        blocks = max(1, SLAB // (problem.batch * problem.keys * problem.query.block))
        with _on(query), torch.autocast(query.device.type, enabled=False):
            for start in range(0, problem.queries, blocks * problem.query.block):
                rows = slice(start, min(start + blocks * problem.query.block, problem.queries))
                weights = _weights(problem, log_sum, rows)
                grad = grad_context[:, rows].to(value.dtype)
                grad_value += weights.to(value.dtype).transpose(1, 2) @ grad
                grad_p = (grad @ value.transpose(1, 2)).float()
                if grad_weights is not None:
                    grad_p += grad_weights[:, rows]
                grad_s = weights.mul_(grad_p.sub_((weights * grad_p).sum(-1, keepdim=True)))  # through the softmax
                # One kernel for each side: each sums over the other side in order, so that no atomic additions are needed.
                grad_v += _gradient(problem, problem.key, problem.query, rows.start, grad_s, grad_k, with_weight=False)
                grad_s = grad_s.transpose(1, 2).contiguous()
                grad_v += _gradient(problem, problem.query, problem.key, rows.start, grad_s, grad_q, with_weight=True)
    return grad_q.to(query.dtype), grad_k.to(key.dtype), grad_value.to(value.dtype), grad_v.to(score_weight.dtype)


def _weights(problem: _Problem, log_sum: Tensor, rows: slice) -> Tensor:
    """Compute the weights (B,n,K) of the queries in `rows` again."""
    q, k, count = problem.query, problem.key, rows.stop - rows.start
    weights = q.rows.new_empty(problem.batch, count, problem.keys)
    grid = (problem.batch * _blocks(count, q.block) * _blocks(problem.keys, k.block),)
    _kernels().recompute_weights[grid](
        *problem.inputs(), log_sum, weights, rows.start, count,
        *problem.sizes(), *problem.strides(), problem.mask is not None, q.block, k.block, problem.native,
    )  # fmt: skip
    return weights


def _gradient(
    problem: _Problem, own: _Side, other: _Side, start: int, grad_scores: Tensor, grad: Tensor, *, with_weight: bool
) -> Tensor:
    """Add the gradient of one side to `grad`; return the gradient of the score weight if `with_weight`, else zeros.

    `grad_scores` is (B,other,own).
    """
    batch, other_count, own_count = grad_scores.shape
    padded_width = own.rows.shape[2]
    block_h = min(64, 4096 // own.block)
    blocks = batch * _blocks(own_count, own.block)
    partial = problem.v.new_zeros(blocks if with_weight else 0, padded_width)
    starts = (start, 0) if own is problem.query else (0, start)
    _kernels().gradient[(blocks * (padded_width // block_h),)](
        own.rows, other.rows, own.highest, other.highest, own.given, other.given, problem.v, grad_scores, grad, partial,
        *starts, own_count, other_count, own.given.shape[1], other.given.shape[1], problem.width,
        own.rows.shape[1], other.rows.shape[1], padded_width,
        with_weight, own.block, other.block, block_h, problem.native,
    )  # fmt: skip
    return partial.sum(0)[: problem.width]


def _kernels() -> ModuleType:
    from regard.attention.fast import additive_triton_kernels  # imported here, because only these kernels need triton

    return additive_triton_kernels


def _is_interpreted() -> bool:
    from triton.runtime.interpreter import InterpretedFunction

    return isinstance(_kernels().attend, InterpretedFunction)


def _on(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Make the tensor's device the current one, on which Triton starts kernels."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


def _block(size: int, most: int) -> int:
    """Return `size` rounded up to a power of two, at least 16 (Triton's minimum for matrix products) and at most `most`."""
    return min(most, max(16, 1 << (size - 1).bit_length()))


def _blocks(size: int, block: int) -> int:
    return -(-size // block)


def _round_up(size: int, block: int) -> int:
    return _blocks(size, block) * block


@_attend.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    (batch, queries, _), (keys, value_size), need_weights = query.shape, value.shape[1:], rest[-1]
    shapes: tuple[Any, ...] = (batch, queries, value_size), (batch, queries, keys) if need_weights else (0,), (batch, queries)
    return tuple(query.new_empty(shape, dtype=torch.float32) for shape in shapes)


@_backward.register_fake
def _(grad_context: Tensor, grad_weights: Tensor | None, *inputs: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in inputs[:4])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.need_weights = inputs
    ctx.save_for_backward(*tensors, output[2])
    ctx.mark_non_differentiable(output[2])


def _differentiate(ctx: Any, grad_context: Tensor, grad_weights: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    of_weights = grad_weights if ctx.need_weights else None
    grads = torch.ops.regard.additive_attention_backward(grad_context, of_weights, *ctx.saved_tensors)
    return *grads, None, None


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "fused additive attention has no second derivative; set the environment variable REGARD_TRITON to 0 to use the plain "
        "form, which has one"
    )


_attend.register_autograd(_differentiate, setup_context=_setup)
_backward.register_autograd(_refuse)
