"""The formula of multi-head attention, which every mechanism with heads calls, and its small parts.

    scores = q_h k_hᵀ / √E + bias,    weights = normalizer(scores),    context_h = weights v_h

In code: `attend`. It takes queries, keys and values of each head, and a mask in which no row is empty (`masks.resolve_masks`).
It chooses how to compute them once: the plain form if weights are needed or changed, PyTorch's fused kernel otherwise.
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.capabilities import is_plain
from regard.attention.fast.softmax import softmax
from regard.attention.masks import causal_mask, fused_mask, hide
from regard.private_torch import is_transformed


def split_heads(x: Float[Tensor, "B T HE"], num_heads: int) -> Float[Tensor, "B H T E"]:
    """Return the features with an axis for the heads: (B,T,H·E) becomes (B,H,T,E)."""
    batch, length, width = x.shape
    return x.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def join_heads(heads: Float[Tensor, "B H T E"]) -> Float[Tensor, "B T HE"]:
    """Return [head_1; …; head_H], the features of all heads on one axis: (B,H,T,E) becomes (B,T,H·E)."""
    return heads.transpose(1, 2).flatten(2)


def head_product(heads: Float[Tensor, "B H Q X"], shared: Float[Tensor, "B G X Y"]) -> Float[Tensor, "B H Q Y"]:
    """Return the product of each head's matrix with the matrix of its group; H/G neighbouring heads form a group."""
    (_, num_heads, queries, _), groups = heads.shape, shared.shape[1]
    if groups == num_heads:
        return heads @ shared
    rows = heads.unflatten(1, (groups, -1)).flatten(2, 3)  # all queries that use the same keys, in one product
    return (rows @ shared).unflatten(2, (num_heads // groups, queries)).flatten(1, 2)


def head_scores(query: Float[Tensor, "B H Q E"], key: Float[Tensor, "B G K E"], scale: float | None = None) -> Tensor:
    """Return q_h k_hᵀ / √E, or scale · q_h k_hᵀ, for each head h (B,H,Q,K)."""
    # Otherwise, the product would copy non-contiguous keys one number at a time, which takes up to 2.6 times as long. It reads
    # those of a pool, which has free places behind the keys of each head, without a copy.
    if torch.compiler.is_compiling() or key.stride()[0] != key.shape[1] * key.stride()[1] or key.stride()[2] != key.shape[3]:
        key = key.contiguous()
    return head_product(query / math.sqrt(query.shape[-1]) if scale is None else query * scale, key.transpose(2, 3))


Change = Callable[[Tensor], Tensor]
"""A function of scores or weights (B,H,Q,K) that returns those that replace them."""


def attend(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "B G K E"],
    value: Float[Tensor, "B Gv K Ev"],
    mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    normalizer: nn.Module | None = None,
    change_scores: Change | None = None,
    change_weights: Change | None = None,
    need_weights: bool = True,
) -> tuple[Float[Tensor, "B Hv Q Ev"], Float[Tensor, "B Hv Q K"] | None]:
    """Return the context of each head, and the weights.

    Args:
        query: The queries of H heads.
        key: The keys of G heads; H/G neighbouring heads of the queries share one.
        value: The values of G heads.
        mask: True where a query may attend to a key, or the numbers 0 there and −∞ elsewhere; no row is empty. It broadcasts to
            the weights; None for all keys.
        bias: Finite numbers to add to the scores; they broadcast to the weights. None for none.
        scale: Factor of the products; None for 1/√E.
        dropout: Probability to drop a weight; the weights returned are those before dropout.
        causal: Whether query i attends to keys up to i only. Then `mask` is None, and Q = K.
        normalizer: Module that computes weights from scores; None for a softmax.
        change_scores: Function of the scores, before bias and mask; None for no change.
        change_weights: Function of the weights; None for no change.
        need_weights: Whether to return the weights; if False, the second result is None.
    """
    plain = need_weights or normalizer is not None or change_scores is not None or change_weights is not None
    # On a CPU, keys and values of different widths have no fused kernel (the fallback copies shared keys for each head), and
    # neither has a bias with a gradient, which a transform hides.
    fused = not query.is_cpu or (key.shape[-1] == value.shape[-1] and (bias is None or not is_transformed()))
    # Every kernel needs queries and values of one type, to which autocast would convert them.
    fused = fused and (query.dtype == value.dtype or torch.is_autocast_enabled(query.device.type))
    if not plain and fused and not is_products_fast(query, key.shape[2]):
        context = nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=fused_mask(mask, bias, query.dtype),
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=key.shape[1] < query.shape[1],
        )
        return context, None
    if causal:
        mask = causal_mask(query.shape[2], key.shape[2], device=query.device)
    scores = head_scores(query, key, scale)
    dtype = scores.dtype
    if change_scores is not None:
        scores = change_scores(scores)
    if bias is not None:
        scores = scores + bias
    scores = hide(scores, mask)
    if normalizer is not None:
        weights = normalizer(scores)
    else:
        # Without weights, a softmax of half types in float32 is faster and more accurate.
        weights = softmax(scores, None if plain else torch.promote_types(scores.dtype, torch.float32))
    weights = weights.to(dtype)
    if change_weights is not None:
        weights = change_weights(weights)
    kept = nn.functional.dropout(weights, dropout) if dropout else weights
    return head_product(kept.to(value.dtype), value), weights if need_weights else None


# Maximum Q, maximum K, minimum Q·K and minimum B·H·Q with which products are faster than a fused kernel (float32, CPU).
_FEW_QUERIES, _FEW_KEYS, _LEAST, _MANY_ROWS = 8, 100, 12, 128
# Number of weights (B·H·Q·K) up to which, in half types on a CPU, two products are faster than a fused kernel.
LARGE = 1 << 21


def is_products_fast(query: Float[Tensor, "B H Q E"], keys: int) -> bool:
    """Return whether two products are faster than PyTorch's fused kernel: on a CPU only, for some types and sizes."""
    # An exported graph must not depend on sizes, so it has the fused kernel.
    if not query.is_cpu or torch.compiler.is_exporting():
        return False
    # Speed-up in bfloat16, forward and with gradients, with heads of 64: 3 and 8.7 at B,H,Q,K = 32,4,30,30; 4.5 and 4.5 at
    # 128,4,1,30. Above LARGE, it depends on the sizes: 2 and 2.3 at 4,4,384,384, but 0.4 and 0.7 at 4,8,512,512.
    if query.dtype.itemsize == 2:
        return query.shape[:-1].numel() * keys <= LARGE
    # Speed-up in float32, in a step of a search over several sentences, with a mask and heads of 32: 2.0 at 64,4,5,14; 1.6 at
    # 64,4,1,14; 1.5 at 16,4,5,13; 1.3 at 8,4,5,13; in a pool of words, 1.2 at 64,4,5,60 and 1.05 at 16,4,5,60. Sizes for which
    # the kernel is used: 0.6 at 64,4,5,200, at 64,4,1,8 and at 1,4,5,13; 0.9 at 16,4,1,13.
    queries = query.shape[2]
    few = queries <= _FEW_QUERIES and keys <= _FEW_KEYS and queries * keys >= _LEAST
    return few and query.shape[:3].numel() >= _MANY_ROWS


# Minimum number of rows of an input for which concatenating the weights of several maps costs less than it saves.
_JOINT_ROWS = 256


def is_joint(x: Float[Tensor, "B T D"], linears: Sequence[nn.Linear]) -> bool:
    """Return whether linear maps of one input are computed as one: where nothing but their call would be left out."""
    # A GPU then starts a third of the operations of an update; on a CPU, an update takes 1 to 3% less time. An exported graph
    # must not depend on sizes, so they come second.
    if torch.compiler.is_compiling() or x.numel() < _JOINT_ROWS * x.shape[-1] or not all(map(is_plain, linears)):
        return False
    return {(linear.in_features, linear.bias is None) for linear in linears} == {(x.shape[-1], linears[0].bias is None)}


def join_maps(x: Float[Tensor, "B T D"], linears: Sequence[nn.Linear]) -> Float[Tensor, "B T C"]:
    """Return the outputs of several linear maps on one axis, computed as one product."""
    bias = None if linears[0].bias is None else torch.cat([linear.bias for linear in linears])
    return nn.functional.linear(x, torch.cat([linear.weight for linear in linears]), bias)
