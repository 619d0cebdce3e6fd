"""Attention weights that a fused function doesn't return, computed again from its arguments.

    weights = softmax(change(scale · q kᵀ))

Only the selected heads and queries are computed, some queries at a time. A query's weights need its own scores alone, so the
whole matrix is never needed, nor the log-sum-exp that some kernels return.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.analysis.observation import Selection

Change = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function of scaled scores (…,H,Q,K) and the indices of their heads (H,) and queries (Q,). It returns the scores with masks,
which are −∞ where a query may not attend, and biases.
"""

_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


@dataclass(frozen=True)
class Product:
    """The arguments of one call of a fused attention function."""

    query: Tensor
    """The queries (…,H,Q,D), or (…,Q,D) without heads."""
    key: Tensor
    """The keys (…,G,K,D), where each of the G heads is shared by H / G heads of the queries."""
    scale: float | None = None
    """Factor of the scores; None for 1/√D."""
    change: Change | None = None
    """Masks and biases of the scores."""
    sink: Tensor | None = None
    """Score (H,) of a further key without a value; None for none."""
    value: Tensor | None = None
    """The values (…,G,K,E), if the weights must be compared with the output."""
    output: Tensor | None = None
    """The function's output (…,H,Q,E), if the weights must be compared with it."""

    def weights(self, selection: Selection, name: str) -> Tensor:
        """Return the selected weights of the module `name`; rows with nothing to attend to are zero.

        Raises:
            ValueError: If weights times values are not the output.
        """
        query, key = self.query.detach(), self.key.detach()
        if not (has_heads := query.ndim > 3):
            query, key = query.unsqueeze(-3), key.unsqueeze(-3)
        num_heads, num_queries = max(query.shape[-3], key.shape[-3]), query.shape[-2]
        query = query.expand(*query.shape[:-3], num_heads, *query.shape[-2:])
        heads, value = torch.arange(num_heads, device=query.device), self.value
        if has_heads and selection.heads is not None:
            heads = torch.tensor(selection.heads_of(num_heads, name), device=query.device)
            shared = heads // (num_heads // key.shape[-3])
            query, key = query.index_select(-3, heads), key.index_select(-3, shared)
            value = value if value is None else value.index_select(-3, shared)
        queries = torch.tensor(selection.rows_of(num_queries, name), device=query.device)

        def rows_of(rows: Tensor) -> Tensor:
            found = self._rows(query.index_select(-2, rows), key, heads, rows)
            if value is not None and self.output is not None:
                _compare(found, value, self.output.index_select(-3, heads).index_select(-2, rows))
            return found if has_heads else found.squeeze(-3)

        batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3]) if has_heads else query.shape[:-3]
        return selection.collect((*batch, *([len(heads)] if has_heads else []), len(queries), key.shape[-2]), queries, rows_of)

    def _rows(self, query: Tensor, key: Tensor, heads: Tensor, rows: Tensor) -> Tensor:
        # The queries are scaled, because in half precision, products of large ones with keys would be infinite.
        scores = _times(query * (query.shape[-1] ** -0.5 if self.scale is None else self.scale), key.mT)
        if self.change is not None:
            scores = self.change(scores, heads, rows)
        if self.sink is not None:
            sink = self.sink.detach().index_select(0, heads)[:, None, None].to(scores.dtype)
            scores = torch.cat([scores, sink.expand(*scores.shape[:-1], 1)], -1)
        exact = torch.promote_types(scores.dtype, torch.float32)
        # The softmax of a row without any key would be NaN.
        nothing = (scores == -torch.inf).all(-1, keepdim=True)
        weights = scores.softmax(-1, dtype=exact).masked_fill(nothing, 0).to(query.dtype)
        return weights if self.sink is None else weights[..., :-1]


def scaled_dot_product(
    args: tuple, kwargs: Mapping[str, Any], module: nn.Module, fold: tuple[int, int] | None = None
) -> Product:
    """Return the product of a module's call of `scaled_dot_product_attention`; for `fold`, see `Observer.fold`."""
    arguments = dict(zip(_NAMES, args, strict=False)) | dict(kwargs)
    query, key, mask = arguments["query"], arguments["key"], arguments.get("attn_mask")
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
    elif mask is not None and query.ndim == 3 and mask.ndim == 3:
        mask = mask.unsqueeze(-3)
    shared = getattr(module, "num_key_value_groups", 1)
    heads = getattr(getattr(module, "config", None), "num_attention_heads", 0)
    if shared > 1 and query.ndim > 3 and query.shape[-3] * shared == heads:
        # For a single query, `transformers` passes the heads that share keys as several queries; make them heads again.
        query = query.flatten(-3, -2).unsqueeze(-2)
        mask = mask if mask is None or mask.shape[1] == 1 else mask.flatten(-3, -2).unsqueeze(-2)

    def change(scores: Tensor, heads: Tensor, rows: Tensor) -> Tensor:
        if arguments.get("is_causal"):
            scores = scores.masked_fill(torch.arange(scores.shape[-1], device=scores.device) > rows[:, None], -torch.inf)
        return scores if mask is None else masked(scores, mask.detach(), heads, rows)

    return Product(query, key, arguments.get("scale"), change)


def masked(scores: Tensor, mask: Tensor, heads: Tensor, rows: Tensor) -> Tensor:
    """Return scores with a boolean mask (True where a query may attend) or an added one, of axes that broadcast."""
    if mask.ndim > 2 and mask.shape[-3] > 1:
        mask = mask.index_select(-3, heads)
    if mask.ndim > 1 and mask.shape[-2] > 1:
        mask = mask.index_select(-2, rows)
    return scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask


def _times(left: Tensor, right: Tensor) -> Tensor:
    """Return the products (…,H,Q,Y) of (…,H,Q,X) with (…,G,X,Y), without a copy of what heads share."""
    num_heads, groups = left.shape[-3], right.shape[-3]
    if num_heads == groups:
        return left @ right
    rows = left.unflatten(-3, (groups, -1)).flatten(-3, -2)
    return (rows @ right).unflatten(-2, (num_heads // groups, -1)).flatten(-4, -3)


def _compare(weights: Tensor, value: Tensor, output: Tensor) -> None:
    """Raise an error if weights times values differ from the output of the kernel by more than rounding."""
    value, output = value.detach(), output.detach()
    if not output.numel():
        return
    low, high = value.aminmax()
    limit = (0.03 if output.dtype in (torch.float16, torch.bfloat16) else 1e-3) * max(1.0, -float(low), float(high))
    error = float((_times(weights.to(value.dtype), value) - output).abs().nan_to_num(0).max())
    if error > limit:
        raise ValueError(
            f"the weights computed from its arguments times the values differ by {error:.2g} from its output, so it computes "
            "something else than is known"
        )
