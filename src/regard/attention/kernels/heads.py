"""Weights and context of several heads, computed without gradients and with the weights as the only large tensor.

    weights = softmax(scale · q kᵀ + bias) over the allowed keys,    context = weights v

`heads_attention` computes some heads of one sentence at a time. Therefore, queries, keys and values are not copied (a product
over batch and heads at once would copy them first), scores become weights in place, and the second product reads the weights
from the cache.

Speed-up of the whole `MultiHead` with weights in float32, without a mask and with one, at B,H,Q,K,D = 4,8,512,512,512: 1.2 and
1.5; 1.25 and 1.65 at 2,8,1024,1024,512; 1.15 and 1.15 at 32,8,128,128,512. With fewer weights, and in bfloat16, the speed-up
is mostly between 0.9 and 1.1; with many short sentences it is less, such as 0.5 at 2048,8,16,16,64. There, this form is not
used (`benchmarks/log.md`).
"""

from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from regard.private_torch import is_transformed

SMALL = 1 << 22
"""Number of weights (B·H·Q·K) below which one product for the whole batch is as fast."""
SMALL_SENTENCE = 1 << 15
"""Number of weights of one sentence (H·Q·K) below which one product for the whole batch is as fast or faster."""
LARGE = 1 << 21
"""Number of weights (B·H·Q·K) up to which, in half types, two products are faster than a fused kernel, which stores no
weights.
"""
BLOCK = 1 << 20
"""Number of weights computed at a time (4 MB of float32), unless a single head has more."""


def is_heads_fast(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> bool:
    """Return whether `heads_attention` is used: on a CPU, for large weights in float32 or float64.

    That is, at least SMALL weights, of which each sentence has at least SMALL_SENTENCE. It is not used if a gradient is needed,
    in compiled code, or under transforms of `torch.func`.
    """
    if torch.compiler.is_compiling() or is_transformed():
        return False
    given = [query, key, value] if bias is None else [query, key, value, bias]
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        return False
    if any(forward_ad.unpack_dual(x).tangent is not None for x in given):
        return False
    of_sentence = query.shape[1] * query.shape[2] * key.shape[2]
    enough = of_sentence >= SMALL_SENTENCE and len(query) * of_sentence >= SMALL
    return enough and query.device.type == "cpu" and query.dtype.itemsize > 2 and query.dtype == key.dtype == value.dtype


def is_products_fast(query: Float[Tensor, "*batch Q D"], keys: int) -> bool:
    """Return whether two products are faster than PyTorch's fused kernel: for half types on a CPU, up to LARGE weights.

    Speed-up in bfloat16, forward and with gradients, with heads of 64: 3 and 8.7 at B,H,Q,K = 32,4,30,30; 4.5 and 4.5 at
    128,4,1,30; 2.5 and 4.6 at 16,4,128,128; 2 and 2.3 at 4,4,384,384. For one head of 256: 5 and 10 at 128,1,1,30; 3.3
    and 3 at 4,1,512,512. With a mask, the forward speed-ups are 1.6 to 1.8. With more weights than LARGE, two products
    are slower (0.4 and 0.7 at 4,8,512,512).
    """
    return query.device.type == "cpu" and query.dtype.itemsize == 2 and query.shape[:-1].numel() * keys <= LARGE


def heads_attention(
    query: Float[Tensor, "B H Q D"],
    key: Float[Tensor, "B H K D"],
    value: Float[Tensor, "B H K Dv"],
    bias: Tensor | None,
    mask: Tensor | None,
    *,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Return the context (B,H,Q,Dv) and weights (B,H,Q,K).

    Bias and mask broadcast to the weights; each may be None.
    """
    return torch.ops.regard.heads_attention(query, key, value, bias, mask, scale)


@torch.library.custom_op("regard::heads_attention", mutates_args=())
def _heads(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    weights = query.new_empty(*query.shape[:3], key.shape[2])
    # This memory layout lets the next linear map read the joined heads without a copy.
    context = query.new_empty(query.shape[0], query.shape[2], query.shape[1], value.shape[3]).transpose(1, 2)
    step = max(1, BLOCK // max(1, query.shape[2] * key.shape[2]))
    for b, h in product(range(len(query)), range(0, query.shape[1], step)):
        at = b, slice(h, h + step)
        block = weights[at]
        torch.baddbmm(block, query[at], key[at].transpose(1, 2), beta=0, alpha=scale, out=block)
        if bias is not None:
            block += bias.expand_as(weights)[at]
        if mask is not None:
            block.masked_fill_(~mask.expand_as(weights)[at], -torch.inf)
        torch.softmax(block, -1, out=block)
        if mask is not None:
            block.masked_fill_(~mask.expand_as(weights)[at], 0)  # the softmax of a row without allowed keys is NaN
        torch.bmm(block, value[at], out=context[at])
    return context, weights
