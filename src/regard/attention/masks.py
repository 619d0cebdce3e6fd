"""Functions that build, check, combine and apply masks.

A mask is boolean, and True means "may attend". It is never applied by adding a large negative number: −1e10 would overflow in
float16, and with the most negative finite number, a query without allowed keys would attend to padding.

    masks = resolve_masks(key_mask, attn_mask, score_bias, …)      once in each call: one mask without empty rows, and one bias
    weights = zero_rows(normalizer(hide(scores + masks.bias, masks.mask)), masks.empty)

Attention with heads resolves a key mask alone when it prepares the keys, for all calls that read them (`KeyMask`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from regard.errors import ShapeError
from regard.private_torch import is_transformed
from regard.shapes import check_shape


class Masks(NamedTuple):
    """The masks and the bias of a call, resolved once."""

    # A softmax of a row without an allowed key would be 0/0. Therefore, `mask` opens such a row to all keys, and `empty` marks
    # it, so that `zero_rows` can set its weights and its context to zero. No normalizer and no kernel meets an empty row.
    mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None = None
    """True where a query may attend to a key, and everywhere in empty rows; or numbers, 0 there and −∞ elsewhere. It broadcasts
    to the scores; None for no mask.
    """
    bias: Float[Tensor, "..."] | None = None
    """Finite numbers to add to the scores, in at least float32, so that a large bias does not overflow; None for no bias."""
    empty: Bool[Tensor, "..."] | None = None
    """True for rows without an allowed key, with an axis of 1 for the keys; None if there is no such row."""
    by_query: bool = False
    """Whether the call had an `attn_mask`, so that the queries may see any keys."""

    @property
    def allowed(self) -> Bool[Tensor, "..."] | None:
        """The mask with False everywhere in empty rows."""
        mask = self.mask == 0 if self.mask is not None and self.mask.is_floating_point() else self.mask
        return mask if mask is None or self.empty is None else mask & ~self.empty

    def within(self, mask: Bool[Tensor, "..."]) -> "Masks":
        """Return the masks of queries that may attend only where `mask` is True, too."""
        allowed = self.allowed
        return _open_empty_rows(mask if allowed is None else allowed & mask, self.bias)

    def row(self, query: int) -> "Masks":
        """Return the masks of one query; an axis of 1 applies to all queries."""
        mask, bias, empty = (x if x is None or x.shape[-2] == 1 else x[..., query : query + 1, :] for x in self[:3])
        return Masks(mask, bias, empty)


NO_MASKS = Masks()


class KeyMask(NamedTuple):
    """A key mask resolved for attention with heads; the layers of a stack share one, and so do the steps of a decoder."""

    # The layers of a stack need not know rows without keys, which are sentences without tokens: a query of such a row attends
    # to all of its places, and nothing reads the result.
    exists: Bool[Tensor, "B K"]
    """True where a key exists."""
    hidden: Float[Tensor, "B 1 1 K"]
    """The number to add to the scores of a key: 0 where it exists, and in rows without keys; −∞ elsewhere."""


def resolve_key_mask(key_mask: Bool[Tensor, "B K"], dtype: torch.dtype) -> KeyMask:
    """Resolve a key mask, with numbers of a type."""
    mask = key_mask[:, None, None]
    # As numbers, because every fused kernel would convert a boolean mask first.
    return KeyMask(key_mask, torch.where(mask | ~mask.any(-1, keepdim=True), 0.0, -torch.inf).to(dtype))


def resolve_masks(
    key_mask: Bool[Tensor, "B K"] | None,
    attn_mask: Bool[Tensor, "..."] | None,
    score_bias: Float[Tensor, "..."] | None = None,
    *,
    batch: int,
    queries: int,
    keys: int,
    heads: int | None = None,
    own: Bool[Tensor, "..."] | None = None,
    added: int = 0,
) -> Masks:
    """Check the mask and the bias of a call, and resolve all masks to one mask, one bias, and the rows that are empty.

    A query may attend to a key where all masks are True and the bias is not −∞.

    Args:
        key_mask: (B,K), True where a key exists; None if all exist. `zero_masked` has checked it.
        attn_mask: (Q,K) or (B,Q,K), or (B,H,Q,K) for a mechanism with heads; an axis of size 1 is broadcast, but K must match.
            Without heads, (B,1,Q,K) is accepted too.
        score_bias: Numbers to add to the scores, in any shape that `attn_mask` may have; None for no bias.
        batch: B.
        queries: Q.
        keys: K.
        heads: H; None for a mechanism without heads, whose scores are (B,Q,K).
        own: The mechanism's own mask, such as a causal mask; None for none.
        added: Number of further keys at the end, to which every query may attend.

    Raises:
        ShapeError: If a mask is not boolean, the bias is not of a floating type, or a shape does not match.
    """
    mask = bias = None
    if key_mask is not None:
        mask = key_mask.unsqueeze(1) if heads is None else key_mask.view(batch, 1, 1, keys)
    if attn_mask is not None:
        attn_mask = _with_axes_of_scores("attn_mask", attn_mask, batch, queries, keys, heads)
        mask = attn_mask if mask is None else mask & attn_mask
    if score_bias is not None:
        bias = _with_axes_of_scores("score_bias", score_bias, batch, queries, keys, heads)
        bias = bias.to(torch.promote_types(bias.dtype, torch.float32))
        hidden = bias == -torch.inf
        mask, bias = ~hidden if mask is None else mask & ~hidden, bias.masked_fill(hidden, 0)
    # A causal mask or a window alone allows each query its own position. In an export, a comparison may not be a bool.
    may_be_empty = mask is not None or (queries <= keys) is not True
    if own is not None:
        mask = own if mask is None else own & mask
    if added:
        bias, mask = (None if x is None else functional.pad(x, (0, added), value=x.dtype == torch.bool) for x in (bias, mask))
    masks = _open_empty_rows(mask, bias) if mask is not None and may_be_empty else Masks(mask, bias)
    return masks if attn_mask is None else masks._replace(by_query=True)


def _open_empty_rows(mask: Bool[Tensor, "..."], bias: Tensor | None) -> Masks:
    some = mask.any(-1, keepdim=True)
    # On a CPU, outside the compiler and transforms of `torch.func`, Python may read whether there is an empty row.
    readable = mask.is_cpu and not torch.compiler.is_compiling() and not is_transformed()
    if readable and bool(some.all()):
        return Masks(mask, bias)
    return Masks(mask | ~some, bias, ~some)


def zero_rows(tensor: Tensor, empty: Bool[Tensor, "..."] | None) -> Tensor:
    """Return weights or contexts with zeros in the rows that are `empty` (see `Masks`).

    A context (B,Q,D) of several heads has zeros for the queries whose rows are empty in all heads.
    """
    if empty is None:
        return tensor
    if empty.ndim > tensor.ndim:
        empty = empty[:, 0] if empty.shape[1] == 1 else empty.all(1)
    return tensor.masked_fill(empty, 0)


def hide(
    scores: Float[Tensor, "*batch K"], mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None
) -> Float[Tensor, "*batch K"]:
    """Return the scores with −∞ where the mask is False, or plus the numbers of a mask of numbers."""
    if mask is None:
        return scores
    return scores + mask if mask.is_floating_point() else scores.where(mask, -torch.inf)


def fused_mask(mask: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return the `attn_mask` of `scaled_dot_product_attention`: the mask, or the bias with −∞ where the mask is False."""
    if bias is None:
        return mask if mask is None or mask.dtype == torch.bool else mask.to(dtype)
    # A number out of the type's range becomes its lowest or highest finite number: −∞ would hide the key, and ∞ give NaN.
    limits = torch.finfo(dtype)
    bias = bias.to(torch.promote_types(bias.dtype, dtype)).clamp(limits.min, limits.max).to(dtype)
    if mask is None:
        return bias
    return bias + mask if mask.is_floating_point() else bias.masked_fill(~mask, -torch.inf)


def zero_masked(tensor: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B K D"]:
    """Set masked keys or values to zero, so that their numbers, even NaN, do not affect any product or its gradient.

    Args:
        tensor: Keys or values.
        key_mask: (B,K), True where a key exists; None if all exist.

    Returns:
        The tensor, with zeros where the mask is False.

    Raises:
        ShapeError: If the mask is not boolean or not (B,K).

    Example:
        >>> zero_masked(torch.ones(1, 3, 1), padding_mask(torch.tensor([2]), 3)).flatten()
        tensor([1., 1., 0.])
    """
    if key_mask is None:
        return tensor
    _check_key_mask(key_mask, tensor.shape[0], tensor.shape[1])
    return tensor.where(key_mask.unsqueeze(-1), 0)


def padding_mask(lengths: Int[Tensor, " B"], size: int | None = None) -> Bool[Tensor, "B K"]:
    """Build a key mask from lengths: the key k exists if k < length.

    Args:
        lengths: Number of keys in each row, ≥ 0.
        size: K; None for the largest length.

    Returns:
        The mask, True where a key exists.

    Example:
        >>> padding_mask(torch.tensor([1, 3])).int()
        tensor([[1, 0, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    if size is None:
        size = int(lengths.max()) if len(lengths) else 0
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def causal_mask(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Bool[Tensor, "Q K"]:
    """Build a causal mask: each query may attend to its own position and to earlier ones.

    If Q ≠ K, the last query has the position of the last key, as step-by-step decoding with cached keys needs: query i may
    attend to key k if k ≤ i + K − Q. (`is_causal` of `scaled_dot_product_attention` aligns the first query with the first key.)

    Args:
        queries: Q.
        keys: K; None for Q.
        device: Device of the mask.

    Returns:
        The mask, True where a query may attend to a key.

    Example:
        >>> causal_mask(2, 3).int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    keys = queries if keys is None else keys
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def window_mask(
    queries: int, keys: int | None = None, *, before: int, after: int = 0, device: torch.device | None = None
) -> Bool[Tensor, "Q K"]:
    """Build a sliding window: a query may attend to its own position, `before` earlier and `after` later positions.

    Query i has the position p = i + K − Q, as in `causal_mask`, and may attend to p − before ≤ k ≤ p + after.

    Args:
        queries: Q.
        keys: K; None for Q.
        before: Number of positions before a query's own, ≥ 0.
        after: Number of positions after a query's own, ≥ 0.
        device: Device of the mask.

    Returns:
        The mask, True where a query may attend to a key.

    Raises:
        ShapeError: If `before` or `after` is negative.

    Example:
        >>> window_mask(3, before=1).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=torch.int32)
    """
    if before < 0 or after < 0:
        raise ShapeError(f"window_mask(before={before}, after={after}): both sides of a window must be 0 or more")
    keys = queries if keys is None else keys
    offset = keys - queries
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(offset + after).triu(offset - before)


def document_ids(lengths: Sequence[Sequence[int]], size: int | None = None) -> Int[Tensor, "B T"]:
    """Return the number of the document to which each position of a row belongs, from 0 on; −1 for padding.

    Args:
        lengths: Lengths of the documents of each row, in order.
        size: T, number of positions in each row; None for the length of the longest row.

    Raises:
        ShapeError: If a length is negative, or a row is longer than `size`.

    Example:
        >>> document_ids([[2, 1], [3, 2]])
        tensor([[ 0,  0,  1, -1, -1],
                [ 0,  0,  0,  1,  1]])
    """
    totals = [sum(row) for row in lengths]
    size = max(totals, default=0) if size is None else size
    if max(totals, default=0) > size or any(length < 0 for row in lengths for length in row):
        raise ShapeError(f"document_ids: lengths must be 0 or more, and sum to at most size={size} in a row; got {lengths}")
    rows = [[i for i, length in enumerate(row) for _ in range(length)] for row in lengths]
    return torch.tensor([row + [-1] * (size - len(row)) for row in rows], dtype=torch.long).view(len(rows), size)


def document_mask(documents: Int[Tensor, "B T"], *, causal: bool = True) -> Bool[Tensor, "B T T"]:
    """Build the `attn_mask` for rows with several packed documents: a position may attend to its own document only.

    Args:
        documents: Number of the document to which each position belongs; negative for padding, which attends to nothing.
        causal: Whether a position may attend only to itself and to earlier positions.

    Raises:
        ShapeError: If `documents` is not (B,T).

    Example:
        >>> document_mask(document_ids([[2, 1]])).int()
        tensor([[[1, 0, 0],
                 [1, 1, 0],
                 [0, 0, 1]]], dtype=torch.int32)
    """
    check_shape("documents", documents, "B T")
    same = (documents[:, :, None] == documents[:, None]) & (documents >= 0)[:, None]
    return same & causal_mask(documents.shape[1], device=documents.device) if causal else same


def document_positions(documents: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Number the positions of packed rows so that each document starts at 0; use them as `query_positions` and `key_positions`.

    Args:
        documents: Number of the document to which each position belongs. The positions of a document are adjacent. Padding is
            numbered like a further document.

    Raises:
        ShapeError: If `documents` is not (B,T).

    Example:
        >>> document_positions(document_ids([[2, 1, 3]]))
        tensor([[0, 1, 0, 0, 1, 2]])
    """
    check_shape("documents", documents, "B T")
    index = torch.arange(documents.shape[1], device=documents.device).expand(documents.shape)
    new = torch.ones_like(documents, dtype=torch.bool)
    new[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return index - index.where(new, 0).cummax(1).values


def _check_key_mask(mask: Tensor, batch: int, keys: int) -> None:
    if mask.dtype != torch.bool or mask.shape != (batch, keys):
        expected = f"(B, K) = ({batch}, {keys})"
        check_boolean("key_mask", mask, f"of shape {expected}")
        hint = "; a mask of more axes that broadcasts to (B, H, Q, K) is an attn_mask" if mask.ndim > 2 else ""
        raise ShapeError(f"key_mask has shape {tuple(mask.shape)}, expected {expected}{hint}")


def _with_axes_of_scores(name: str, tensor: Tensor, batch: int, queries: int, keys: int, heads: int | None) -> Tensor:
    """Return a mask or a bias with axes that broadcast to the scores, (B,Q,K) or (B,H,Q,K)."""
    # The size of the axis K must be K. If it could be 1, then a mask that covers only the new key of a decoding step, without
    # the cached keys, would be broadcast to all keys without an error.
    full = {"(Q, K)": (queries, keys), "(B, Q, K)": (batch, queries, keys), "(B, H, Q, K)": (batch, heads or 1, queries, keys)}
    shape, is_bias = tuple(tensor.shape), name == "score_bias"
    sizes = list(full.values())[len(shape) - 2] if 2 <= len(shape) <= 4 else ()
    fits = bool(sizes) and shape[-1] == keys and all(n in (1, size) for n, size in zip(shape, sizes, strict=True))
    if fits and (tensor.is_floating_point() if is_bias else tensor.dtype == torch.bool):
        if heads is None:
            return tensor[:, 0] if tensor.ndim == 4 else tensor
        return tensor[:, None] if tensor.ndim == 3 else tensor
    if heads is None:
        del full["(B, H, Q, K)"]
    expected = f"{' or '.join(f'{axes} = {sizes}' for axes, sizes in full.items())}, where all axes but K may be 1"
    if not is_bias:
        check_boolean(name, tensor, f"of shape {expected}")
    elif not tensor.is_floating_point():
        raise ShapeError(f"score_bias is {_kind(tensor)}, expected floating-point numbers; a boolean mask is an attn_mask")
    hint = ""
    if shape == (batch, keys):
        hint = (
            "; give a bias (B, K) as score_bias[:, None]" if is_bias else "; a (B, K) mask of the keys that exist is a key_mask"
        )
    elif heads and shape == (batch * heads, queries, keys):
        hint = f"; unflatten the mask of nn.MultiheadAttention with {name}.unflatten(0, ({batch}, {heads}))"
    elif heads is None and len(shape) == 4:
        hint = "; this mechanism has no heads"
    raise ShapeError(f"{name} has shape {shape}, expected {expected}{hint}")


def check_boolean(name: str, mask: Tensor, shape: str, *, meaning: str = "may attend") -> None:
    """Raise an error if a mask is not boolean.

    Args:
        name: The argument's name, for the message.
        mask: The mask.
        shape: The expected shape, for the message.
        meaning: What True means in this mask, for the message.

    Raises:
        ShapeError: If the mask is not boolean.
    """
    if mask.dtype != torch.bool:
        numbers = "; numbers to add to the scores are a score_bias" if name == "attn_mask" and mask.is_floating_point() else ""
        raise ShapeError(
            f"{name} is {_kind(mask)}, expected a boolean mask {shape} in which True means '{meaning}'. Convert 0/1 masks with "
            f"{name}.bool(), masks of 0 and −inf with {name} == 0, and masks in which True means 'ignore' with ~{name}{numbers}"
        )


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
