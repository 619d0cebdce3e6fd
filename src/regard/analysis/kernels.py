"""Attention kernels other than PyTorch's `scaled_dot_product_attention`, as products whose weights can be computed.

    flex_attention · varlen_attn · the functions of the package flash_attn (2 and 3) · the attention functions of transformers

The weights are compared with the kernel's output, so an option that is unknown here gives a warning instead of wrong weights.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from regard.analysis.products import Change, Product, masked

_PACKED = "the keys are in pages or have a length of their own, from which weights cannot be computed"
_lock = Lock()
_replaced: dict[str, tuple[Callable, Callable]] = {}
_num_captures = 0


def find_product(func: Any, args: tuple, kwargs: Mapping[str, Any], output: Any) -> Product | None:
    """Return the product that a call of an attention kernel computes; None for any other function.

    Raises:
        ValueError: If the call uses an option with which weights cannot be computed.
    """
    name = getattr(func, "__name__", "").partition(".")[0]
    first = output[0] if isinstance(output, tuple) and output else output
    if kind := getattr(func, "attention_interface", ""):
        return _INTERFACES[kind](output=first.transpose(1, 2), **dict(zip(_ARGUMENTS, args, strict=False)) | dict(kwargs))
    if name == "flex_attention" and hasattr(func, "namespace"):  # PyTorch's operator below the function of this name
        return _flex(*args, output=first, **kwargs)
    if name in ("_varlen_attn", "_flash_attn_forward", "_flash_attn_varlen_forward"):
        return _flash(_bind(func, args, kwargs), first)
    return None


@contextmanager
def seen_interfaces() -> Iterator[None]:
    """Show captures the calls of the attention functions of `transformers` whose kernels they could not see otherwise.

    While any capture is open, each such function is registered in a form that calls the active modes of PyTorch, as its own
    functions do, and then itself.
    """
    global _num_captures
    interface = getattr(sys.modules.get("transformers.modeling_utils"), "AttentionInterface", None)
    with _lock:
        _num_captures += 1
        if interface and not _replaced:
            functions = dict(interface())
            # The functions sdpa and eager call functions of PyTorch that are seen themselves.
            for name, kind in ((name, kind) for name in functions for kind in _INTERFACES if kind in name):
                _replaced[name] = functions[name], _overridable(functions[name], kind)
                interface.register(name, _replaced[name][1])
    try:
        yield
    finally:
        with _lock:
            _num_captures -= 1
            if not _num_captures:
                for name, (function, ours) in _replaced.items():
                    if interface and interface()[name] is ours:  # else somebody has registered another one meanwhile
                        interface.register(name, function)
                _replaced.clear()


def _overridable(function: Callable, kind: str) -> Callable:
    @functools.wraps(function)
    def call(module: Any, query: Tensor, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function((query,)):
            return handle_torch_function(call, (query,), module, query, *args, **kwargs)
        return function(module, query, *args, **kwargs)

    call.attention_interface = kind  # type: ignore[attr-defined]
    return call


_ARGUMENTS = ("module", "query", "key", "value", "attention_mask")


def _flex_interface(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    *,
    output: Tensor,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> Product:
    """Return the product of `flex_attention` in transformers."""

    def change(scores: Tensor, heads: Tensor, rows: Tensor) -> Tensor:
        scores = scores if softcap is None else softcap * (scores / softcap).tanh()
        if position_bias is not None:
            scores = masked(scores, position_bias.detach(), heads, rows)
        if hasattr(attention_mask, "mask_mod"):
            return scores.masked_fill(~_by_place(attention_mask.mask_mod, (), scores, heads, rows), -torch.inf)
        return scores if attention_mask is None else masked(scores, attention_mask[..., : key.shape[-2]], heads, rows)

    return Product(query, key, scaling, change, s_aux, value, output)


def _flash_interface(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    *,
    output: Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    position_ids: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    block_table: Tensor | None = None,
    **_: Any,
) -> Product:
    """Return the product of `flash_attention_2` and its successors in transformers."""
    if block_table is not None:
        raise ValueError(_PACKED)
    starts = cu_seq_lens_q, cu_seq_lens_k
    if attention_mask is not None:
        starts = None, None
    elif cu_seq_lens_q is None and position_ids is not None and len(query) == 1 and position_ids.numel() > 1:
        places = position_ids.reshape(-1)
        begins = (places == places.min()).nonzero().view(-1)  # where texts that share a row begin
        starts = (torch.cat([begins, begins.new_tensor([len(places)])]),) * 2 if len(begins) > 1 else starts
    window = -1 if sliding_window is None else sliding_window - 1
    causal = module.is_causal if is_causal is None else is_causal
    change = _visible(query.shape[-2], key.shape[-2], starts, causal, (window, window), softcap, attention_mask)
    return Product(query, key, scaling, change, s_aux, value, None if dropout else output)


# By a part of the names under which functions are registered.
_INTERFACES: dict[str, Callable[..., Product]] = {"flex": _flex_interface, "flash": _flash_interface}


def _flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable,
    block_mask: tuple,
    scale: float,
    kernel_options: Any,
    score_buffers: tuple = (),
    mask_buffers: tuple = (),
    *,
    output: Tensor,
) -> Product:
    """Return the product of PyTorch's operator below `flex_attention`."""

    def change(scores: Tensor, heads: Tensor, rows: Tensor) -> Tensor:
        seen = _by_place(block_mask[-1], mask_buffers, scores, heads, rows)
        return _by_place(score_mod, score_buffers, scores, heads, rows, scores).masked_fill(~seen, -torch.inf)

    return Product(query, key, scale, change, None, value, output)


def _by_place(function: Callable, buffers: tuple, scores: Tensor, heads: Tensor, rows: Tensor, *values: Tensor) -> Tensor:
    """Call a function of (value, sentence, head, query, key), or without a value, for each element of scores (B,H,Q,K)."""
    places = [
        torch.arange(len(scores), device=scores.device),
        heads,
        rows,
        torch.arange(scores.shape[-1], device=scores.device),
    ]
    for axis in (3, 2, 1, 0):
        over = [0] * len(values) + [0 if place == axis else None for place in range(4)] + [None] * len(buffers)
        function = torch.vmap(function, in_dims=tuple(over))
    return function(*values, *places, *buffers).expand_as(scores)


def _bind(func: Any, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of an operator by name."""
    schema = getattr(func, "default", func)._schema.arguments
    given = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    return given | dict(zip((argument.name for argument in schema), args, strict=False)) | dict(kwargs)


def _flash(given: dict[str, Any], output: Tensor) -> Product:
    """Return the product of an operator of the package flash_attn, or of PyTorch's below `varlen_attn`."""

    def get(*names: str) -> Any:
        return next((given[name] for name in names if given.get(name) is not None), None)

    if get("seqused_k", "seqused_q", "block_table", "page_table", "leftpad_k", "k_new") is not None:
        raise ValueError(_PACKED)
    tensors = [get("query", "q"), get("key", "k"), get("value", "v"), output]
    # Sentences, or else one row of all texts, then tokens, then heads.
    query, key, value, output = ((each if each.ndim == 4 else each[None]).transpose(1, 2) for each in tensors)
    window = get("window_size") or (given.get("window_size_left", -1), given.get("window_size_right", -1))
    starts = get("cu_seqlens_q", "cu_seq_q"), get("cu_seqlens_k", "cu_seq_k")
    causal = bool(get("causal", "is_causal"))
    change = _visible(query.shape[-2], key.shape[-2], starts, causal, window, get("softcap") or None)
    dropout = get("dropout_p") or 0.0
    return Product(query, key, get("softmax_scale", "scale"), change, None, value, None if dropout else output)


def _visible(
    num_queries: int,
    num_keys: int,
    starts: tuple[Tensor | None, Tensor | None],
    causal: bool,
    window: tuple[int, int],
    softcap: float | None,
    mask: Tensor | None = None,
) -> Change:
    """Return the change of scores of FlashAttention, in which the last query of a text has the place of its last key.

    Args:
        num_queries: Number of queries, of all texts in a row.
        num_keys: Number of keys.
        starts: Indices at which the texts of a row begin, and the length of the row, for queries and keys; None for one text.
        causal: Whether no query sees later keys.
        window: Numbers of keys before and after its own place that a query sees; −1 for all.
        softcap: Largest absolute score c, by c · tanh(score / c); None for no limit.
        mask: Mask of tokens (B,K) that are not padding, the last of which are also those of the queries.
    """
    counts = [
        torch.tensor([count]) if each is None else each.long().diff()
        for count, each in zip((num_queries, num_keys), starts, strict=True)
    ]

    def change(scores: Tensor, heads: Tensor, rows: Tensor) -> Tensor:
        queries, keys = (each.to(scores.device) for each in counts)
        texts = [torch.arange(len(each), device=scores.device).repeat_interleave(each) for each in (queries, keys)]
        # The place of each query among the keys of the row.
        place = torch.arange(len(texts[0]), device=scores.device) + ((keys.cumsum(0) - queries.cumsum(0))[texts[0]])
        scores = scores if softcap is None else softcap * (scores / softcap).tanh()
        distance = torch.arange(len(texts[1]), device=scores.device) - place[rows, None]
        seen = texts[1] == texts[0][rows, None]
        seen &= distance >= -window[0] if window[0] >= 0 else True
        after = 0 if causal else window[1]
        seen &= distance <= after if after >= 0 else True
        if mask is not None:
            kept = mask.bool()
            own = kept[:, -num_queries:] if num_queries > 1 else torch.ones_like(kept[:, :1])
            seen = seen & kept[:, None, None, :] & own[:, None, rows, None]
        return scores.masked_fill(~seen, -torch.inf)

    return change
