"""Masks: the only place where they are made, checked, combined and applied.

A mask is boolean, and True means "may attend". It is applied by booleans, never by adding a large negative number: −1e10
overflows in half precision, and the most negative finite number lets a row with nothing to attend to attend to its padding.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.kernels.softmax import softmax
from regard.errors import ShapeError


def combine_masks(
    key_mask: Tensor | None, attn_mask: Tensor | None, *, batch: int, queries: int, keys: int, heads: int | None = None
) -> Tensor | None:
    """Check both masks and join them: a query may attend where both say so.

    Args:
        key_mask: (B,K), which keys are there at all; None for all.
        attn_mask: Exactly (Q,K) or (B,Q,K), or (B,H,Q,K) where the mechanism has heads. Nothing is guessed from sizes.
        batch: B.
        queries: Q.
        keys: K.
        heads: H; None for a mechanism without heads, whose scores are (B,Q,K).

    Returns:
        A mask that broadcasts to (B,Q,K), or to (B,H,Q,K) with heads; None if both are None.

    Raises:
        ShapeError: If a mask is not boolean or has another shape.
    """
    if key_mask is not None:
        _check(key_mask, "key_mask", {"B K": (batch, keys)})
        key_mask = key_mask[:, None, :] if heads is None else key_mask[:, None, None, :]
    if attn_mask is None:
        return key_mask
    allowed = {"Q K": (queries, keys), "B Q K": (batch, queries, keys)}
    if heads is not None:
        allowed["B H Q K"] = (batch, heads, queries, keys)
    _check(attn_mask, "attn_mask", allowed)
    if heads is not None and attn_mask.ndim == 3:
        attn_mask = attn_mask[:, None]
    return attn_mask if key_mask is None else attn_mask & key_mask


def zero_masked(tensor: Float[Tensor, "B K D"], key_mask: Tensor | None) -> Float[Tensor, "B K D"]:
    """Put zeros behind a key mask (B,K), so that nothing there, a NaN included, reaches a product or its gradient.

    Raises:
        ShapeError: If the mask is not boolean or not (B,K).
    """
    if key_mask is None:
        return tensor
    _check(key_mask, "key_mask", {"B K": (tensor.shape[0], tensor.shape[1])})
    return tensor.masked_fill(~key_mask[..., None], 0)


def masked_softmax(scores: Float[Tensor, "*batch K"], mask: Tensor | None = None) -> Float[Tensor, "*batch K"]:
    """Softmax over the last axis, among the positions that a mask allows.

    w_k = exp(s_k) / Σ_{j allowed} exp(s_j) where k is allowed, else 0. A row with nothing allowed is all zeros, and its
    gradient is zero. What stands behind the mask (infinity and NaN too) changes neither result nor gradient.

    Args:
        scores: Any real numbers, in any floating type.
        mask: Boolean, broadcasting to the scores; None allows everything.

    Raises:
        ShapeError: If the mask is not boolean.
    """
    if mask is None:
        return softmax(scores)
    if mask.dtype != torch.bool:
        raise ShapeError(_not_boolean("mask", mask, "broadcasting to the scores"))
    # An empty row gets equal scores instead of −∞ everywhere, which would be 0/0.
    fill = scores.new_zeros(()).where(~mask.any(-1, keepdim=True), -torch.inf).to(scores.dtype)
    return softmax(torch.where(mask, scores, fill)).masked_fill(~mask, 0)


def padding_mask(lengths: Int[Tensor, " B"], size: int | None = None) -> Bool[Tensor, "B K"]:
    """A key mask from lengths: position k is there if k < length.

    Args:
        lengths: How many keys each row has, ≥ 0.
        size: K; None for the longest.
    """
    size = int(lengths.max()) if size is None else size
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def causal_mask(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Bool[Tensor, "Q K"]:
    """Each query may attend to its own position and those before it.

    With Q ≠ K the ends are aligned (the last query sits at the last key), which is what step-by-step decoding with kept
    keys needs: query i may attend to key k if k ≤ i + K − Q.
    """
    keys = queries if keys is None else keys
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def window_mask(
    queries: int, keys: int | None = None, *, before: int, after: int = 0, device: torch.device | None = None
) -> Bool[Tensor, "Q K"]:
    """Sliding window: each query may attend to `before` positions before its own, itself, and `after` positions after it.

    Query i sits at position p = i + K − Q, as in `causal_mask`, and may attend to p − before ≤ k ≤ p + after.

    Raises:
        ShapeError: If the window has a negative side.
    """
    if before < 0 or after < 0:
        raise ShapeError(f"window_mask(before={before}, after={after}): both sides of a window must be 0 or more")
    keys = queries if keys is None else keys
    offset = keys - queries
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(offset + after).triu(offset - before)


def _check(mask: Tensor, name: str, allowed: dict[str, tuple[int, ...]]) -> None:
    shapes = " or ".join(f"({axes.replace(' ', ', ')}) = {shape}" for axes, shape in allowed.items())
    if mask.dtype != torch.bool:
        raise ShapeError(_not_boolean(name, mask, f"of shape {shapes}"))
    if tuple(mask.shape) not in allowed.values():
        hint = "; this mechanism has no heads" if mask.ndim == 4 and "B H Q K" not in allowed else ""
        raise ShapeError(f"{name} has shape {tuple(mask.shape)}, expected {shapes}{hint}")


def _not_boolean(name: str, mask: Tensor, shape: str) -> str:
    kind = str(mask.dtype).removeprefix("torch.")
    return (
        f"{name} is {kind}, expected a boolean mask {shape} in which True means 'may attend'. Convert 0/1 masks with "
        f"{name}.bool(), masks of 0 and −inf with {name} == 0, and masks in which True means 'ignore' with ~{name}"
    )
