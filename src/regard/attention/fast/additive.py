"""Additive scores without tanh, and without the (B,Q,K,H) tensor.

    s_ij = Σ_h v_h tanh(q_ih + k_jh)                       in code: `attention.scores.additive.plain_additive_scores`

Because tanh(a + b) = 1 − 2 / (1 + e^{2a} e^{2b}), E = e^{2q} and F = e^{2k} are computed once for each row, and then

    t_ijh = 1 − 2 / (1 + E_ih F_jh)

takes one multiply-add and one division for each element. The work is done in place, in blocks that fit into the cache, so
memory grows with B·Q·K only, in the backward pass too. If |q| or |k| is so large that E·F could overflow, E or F is NaN on
purpose, and a block that contains a NaN uses tanh itself. The operations are opaque to `torch.compile`, so compiled callers use
the same blocks.

Speed-up over the plain form, forward and with gradients, at B,Q,K,H = 32,30,30,256: 7 to 13 and 2.6 to 5 in float32, 3.2 to
3.9 and 1.9 to 2.1 in bfloat16; at 4,512,512,256: 18 and 10 in float32, 10 and 6 in bfloat16 (`benchmarks/log.md`).

For inputs of ordinary size, the error against float64 equals that of the plain form. For tiny inputs, it is larger: the error
of each element stays at about ε·|v| (ε is the precision of the type), while the error of tanh shrinks with its input.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.precision import compute_dtype
from regard.private_torch import is_transformed

# Number of elements of a block: 1 MB of float32, which fits into a core's second-level cache.
BLOCK = 1 << 18
# Maximum number of queries in a block, large enough for efficient products that reduce over queries.
QUERIES = 64
# Number of elements (B·Q·K·H) below which the plain form is as fast, because calls of operations cost more than arithmetic.
SMALL = 1 << 16
# As `SMALL`, if a gradient is needed. This number of elements is larger, because gradients need more calls.
SMALL_WITH_GRADIENT = 1 << 19
# Number of queries below which the plain form is used, because computing the exponentials of the keys costs as much as the
# tanh. This limit does not apply if these exponentials were computed before.
FEW = 4

_Index = tuple[slice | int, ...]


def fast_additive_scores(
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    score_weight: Float[Tensor, " H"],
    key_exponential: Float[Tensor, "B K H"] | None = None,
) -> Float[Tensor, "B Q K"]:
    """Return the scores of the plain form, computed in blocks, in float32 for half types; they have first derivatives only."""
    scores: Tensor = torch.ops.regard.additive_scores(query, key, score_weight, key_exponential)
    return scores.to(compute_dtype(scores))  # the type of the plain form's product


def is_fast(query: Tensor, key: Tensor, key_exponential: Tensor | None = None) -> bool:
    """Return whether the blocked form is used for these sizes and this device."""
    if query.numel() * key.shape[1] < _small(query, key) or (key_exponential is None and query.shape[1] < FEW):
        return False
    # On a GPU, the program would wait for the range check of each block. Transforms of `torch.func` need all derivatives.
    return query.device.type == "cpu" and not is_transformed()


def exponential(x: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch H"]:
    """Return e^{2x} without a gradient, in float32 for half types; NaN where a product of two exponentials could overflow."""
    x, dtype = x.detach(), torch.float64 if x.dtype == torch.float64 else torch.float32
    limit = math.log(torch.finfo(dtype).max) / 4 - 0.5
    result = torch.mul(x, 2, out=x.new_empty(x.shape, dtype=dtype)).exp_()
    if x.numel() and not -limit < x.min().item() <= x.max().item() < limit:
        result.masked_fill_(~(x.abs() < limit), math.nan)
    return result


def ready_exponential(key: Float[Tensor, "B K H"]) -> Float[Tensor, "B K H"] | None:
    """Return `exponential(key)` for keys that are used by one query after another; None if it would not save time."""
    # Speed-up over the plain form for 30 steps of 128 sentences (30 keys, width 256): 4 in float32, 2.7 in bfloat16; with
    # gradients 1.6 and 1.2. For 32 sentences: 2.4 to 2.8 in float32, 1.5 to 1.9 in bfloat16; the plain form with gradients.
    if torch.compiler.is_compiling() or torch.compiler.is_exporting() or is_transformed():
        return None
    return exponential(key) if key.numel() >= _small(key, key) and key.device.type == "cpu" else None


def _small(query: Tensor, key: Tensor) -> int:
    return SMALL_WITH_GRADIENT if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad) else SMALL


def _blocks(query: Tensor, key: Tensor) -> Iterator[tuple[_Index, _Index, _Index]]:
    """Yield the indices of query, key and scores, block by block."""
    # A block is either one query and all keys of many sentences, which is faster for single steps of a decoder and for many
    # short sentences, or one sentence with many queries and keys. The shapes of query, key and scores in a block are (n,H),
    # (n,K,H), (n,K) in the first form, and (n,H), (1,k,H), (n,k) in the second. The form with fewer blocks is used.
    (batch, queries, width), keys = query.shape, key.shape[1]
    if not batch * queries * keys * width:
        return
    num_q = min(queries, QUERIES)
    num_k = min(keys, max(1, BLOCK // max(1, num_q * width)))
    num_b = min(batch, BLOCK // max(1, keys * width))
    if num_b and queries * math.ceil(batch / num_b) <= batch * math.ceil(queries / num_q) * math.ceil(keys / num_k):
        for b in range(0, batch, num_b):
            rows = slice(b, b + num_b)
            for i in range(queries):
                yield (rows, i), (rows,), (rows, i)
        return
    for b in range(batch):
        for i in range(0, queries, num_q):
            for j in range(0, keys, num_k):
                rows, columns = slice(i, i + num_q), slice(j, j + num_k)
                yield (b, rows), (slice(b, b + 1), columns), (b, rows, columns)


class _Blocks:
    """Computation of tanh(q_i + k_j) for one block after another, in reused memory."""

    def __init__(self, query: Tensor, key: Tensor, key_exponential: Tensor | None) -> None:
        self.query, self.key = query, key
        self.e = exponential(query)
        self.f = exponential(key) if key_exponential is None else key_exponential
        (batch, queries, width), keys = query.shape, key.shape[1]
        self.one = self.e.new_ones(width)  # a row of ones, because PyTorch vectorises only one scalar per operation
        self.workspace = self.e.new_empty(min(max(BLOCK, QUERIES * width), batch * queries * keys * width))

    def in_range(self, at_q: _Index, at_k: _Index) -> bool:
        """Return whether no product of this block can overflow."""
        return math.isfinite((self.e[at_q].sum() + self.f[at_k].sum()).item())

    def fast(self, at_q: _Index, at_k: _Index) -> Tensor:
        """Return 1 − 2 / (1 + E·F), (n,k,H)."""
        e, f = self.e[at_q], self.f[at_k]
        shape = (e.shape[0], f.shape[1], e.shape[1])
        x = self.workspace[: math.prod(shape)].view(shape)
        torch.addcmul(self.one, e[:, None], f, out=x)
        return torch.addcdiv(self.one, self.one, x, value=-2, out=x)

    def exact(self, at_q: _Index, at_k: _Index) -> Tensor:
        """Return tanh(q + k), (n,k,H)."""
        return (self.query[at_q][:, None].to(self.e.dtype) + self.key[at_k].to(self.e.dtype)).tanh_()


@torch.library.custom_op("regard::additive_scores", mutates_args=())
def _scores(query: Tensor, key: Tensor, score_weight: Tensor, key_exponential: Tensor | None) -> Tensor:
    blocks = _Blocks(query, key, key_exponential)
    v = score_weight.to(blocks.e.dtype)
    scores = v.new_zeros(query.shape[0], query.shape[1], key.shape[1])
    with torch.autocast(query.device.type, enabled=False):
        for at_q, at_k, at_s in _blocks(query, key):
            block = blocks.fast(at_q, at_k) @ v
            # The sum is NaN if E or F of this block is, and has fewer terms than they.
            if not math.isfinite(block.sum().item()):
                block = blocks.exact(at_q, at_k) @ v
            scores[at_s] = block
    return scores.to(torch.promote_types(query.dtype, key.dtype))


@torch.library.custom_op("regard::additive_scores_backward", mutates_args=())
def _backward(
    grad: Tensor, query: Tensor, key: Tensor, score_weight: Tensor, key_exponential: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    # With t = tanh(q_i + k_j) and t' = 1 − t²: dq_i = v Σ_j g_ij t'_ij, dk_j = v Σ_i g_ij t'_ij, dv = Σ_ij g_ij t_ij.
    blocks = _Blocks(query, key, key_exponential)
    grad, v = grad.to(blocks.e.dtype), score_weight.to(blocks.e.dtype)
    grad_q, grad_k, grad_v = (torch.zeros_like(x) for x in (blocks.e, blocks.f, v))
    for at_q, at_k, at_s in _blocks(query, key):
        g = grad[at_s].contiguous()
        # Here, the range is checked first, because a NaN in t would already be added to the gradients.
        t = blocks.fast(at_q, at_k) if blocks.in_range(at_q, at_k) else blocks.exact(at_q, at_k)
        grad_v.addmv_(t.view(-1, t.shape[-1]).t(), g.view(-1))
        slope = torch.addcmul(blocks.one, t, t, value=-1, out=t)  # 1 − t², in place of t, which nothing needs any more
        grad_q[at_q].unsqueeze(1).baddbmm_(g.unsqueeze(1), slope)
        if slope.shape[0] > blocks.f[at_k].shape[0]:  # many queries and one sentence: a product sums over the queries
            grad_k[at_k][0].unsqueeze(1).baddbmm_(g.t().unsqueeze(1), slope.transpose(0, 1))
        else:
            grad_k[at_k].addcmul_(g[..., None], slope)
    # All terms of dq and dk have the factor v, so it multiplies the sums and not the (B,Q,K,H) terms.
    return grad_q.mul_(v).to(query.dtype), grad_k.mul_(v).to(key.dtype), grad_v.to(score_weight.dtype)


@_scores.register_fake
def _(query: Tensor, key: Tensor, score_weight: Tensor, key_exponential: Tensor | None) -> Tensor:
    dtype = torch.promote_types(query.dtype, key.dtype)
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1], dtype=dtype)


@_backward.register_fake
def _(grad: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in inputs[:3])


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *torch.ops.regard.additive_scores_backward(grad, *ctx.saved_tensors), None


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "additive_scores has no second derivative; use regard.attention.scores.additive.plain_additive_scores, which has one"
    )


_scores.register_autograd(_differentiate, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
_backward.register_autograd(_refuse)
