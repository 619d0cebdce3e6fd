"""The weights of `scaled_dot_product_attention`, computed again from its arguments because it does not return them."""

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.analysis.observation import Selection

_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def scaled_dot_product_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    first: int = 0,
) -> Tensor:
    """Return softmax(scale q kᵀ + mask), the weights (…,H,Q,K) before dropout; rows with nothing to attend to are zero.

    The arguments are those of PyTorch's function; `first` is the position of the first given query, for `is_causal`.
    """
    if enable_gqa and key.shape[-3] < query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril(first)
        scores = scores.masked_fill(~seen, -torch.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    exact = torch.promote_types(scores.dtype, torch.float32)
    # The softmax of a row without any key would be NaN.
    nothing = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.softmax(-1, dtype=exact).masked_fill(nothing, 0).to(query.dtype)


def selected_weights(
    args: tuple,
    kwargs: Mapping[str, Any],
    module: nn.Module,
    name: str,
    selection: Selection,
    fold: tuple[int, int] | None = None,
) -> Tensor:
    """Return the selected weights of one call of `scaled_dot_product_attention`, computed some rows at a time.

    The innermost module that made the call has this name; for `fold`, see `Observer.fold`.
    """
    arguments = dict(zip(_NAMES, args, strict=False)) | dict(kwargs)
    query, key, mask = arguments["query"].detach(), arguments["key"].detach(), arguments.get("attn_mask")
    # Importing this module of PyTorch loads its compiler, which takes seconds; whoever made such a mask has imported it.
    causal = sys.modules.get("torch.nn.attention.bias")
    if causal and isinstance(mask, causal.CausalBias):  # a mask without numbers, with only its variant and its sizes
        ahead = mask.seq_len_kv - mask.seq_len_q if mask.variant == causal.CausalVariant.LOWER_RIGHT else 0
        mask = torch.ones(mask.seq_len_q, mask.seq_len_kv, dtype=torch.bool, device=query.device).tril(ahead)
    if query.ndim == 2:
        query, key = query[None], key[None]
    if fold and fold[0]:
        query, key = query.unflatten(0, fold), key.unflatten(0, fold)
        mask = mask.unflatten(0, fold) if mask is not None and mask.ndim == 3 and len(mask) > 1 else mask
    shared = getattr(module, "num_key_value_groups", 1)
    heads = getattr(getattr(module, "config", None), "num_attention_heads", 0)
    if shared > 1 and query.ndim > 3 and query.shape[-3] * shared == heads:
        # For a single query, `transformers` passes the heads that share keys as several queries; make them heads again.
        query = query.flatten(-3, -2).unsqueeze(-2)
        mask = mask if mask is None or mask.shape[1] == 1 else mask.flatten(-3, -2).unsqueeze(-2)
        arguments = arguments | {"enable_gqa": True}
    if query.ndim > 3 and selection.heads is not None:
        heads = torch.tensor(selection.heads_of(query.shape[-3], name), device=query.device)
        if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
            mask = mask.index_select(-3, heads)
        key = key.index_select(-3, heads // (query.shape[-3] // key.shape[-3]))
        query = query.index_select(-3, heads)

    def rows_of(rows: slice) -> Tensor:
        part = mask if mask is None or mask.ndim < 2 or mask.shape[-2] == 1 else mask[..., rows, :]
        options = {option: arguments[option] for option in ("is_causal", "scale", "enable_gqa") if option in arguments}
        return scaled_dot_product_weights(query[..., rows, :], key, part, first=rows.start, **options)

    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3]) if query.ndim > 3 else ()
    return selection.collect((*batch, *query.shape[len(batch) : -1], key.shape[-2]), rows_of)
