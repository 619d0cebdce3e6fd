"""The weights of `scaled_dot_product_attention`, computed again from its arguments because it does not return them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def scaled_dot_product_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(scale q kᵀ + mask), the weights (…,H,Q,K) before dropout; rows with nothing to attend to are zero.

    Args:
        query: (…,H,Q,E).
        key: (…,G,K,E), with G < H heads only if `enable_gqa`.
        attn_mask: True where a query may attend, or numbers that are added to the scores.
        is_causal: If True, query i sees keys 0 to i.
        scale: Factor of the scores; None for 1 / √E.
        enable_gqa: Whether neighbouring heads share keys.
    """
    if enable_gqa and key.shape[-3] < query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    exact = torch.promote_types(scores.dtype, torch.float32)
    nothing = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.softmax(-1, dtype=exact).masked_fill(nothing, 0).to(query.dtype)


class _Catch(TorchFunctionMode):
    def __init__(self, take: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.take = take

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func is nn.functional.scaled_dot_product_attention:
            given = dict(zip(_NAMES, args, strict=False)) | (kwargs or {})
            options = {name: given[name] for name in ("attn_mask", "is_causal", "scale", "enable_gqa") if name in given}
            with torch.no_grad():
                self.take(scaled_dot_product_weights(given["query"].detach(), given["key"].detach(), **options))
        return output


@contextmanager
def catch_scaled_dot_products(module: nn.Module, take: Callable[[str, Tensor], None]) -> Iterator[None]:
    """Call a function with the weights of every `scaled_dot_product_attention` that the module calls.

    Args:
        module: The module. What it returns stays bit-identical.
        take: Function of two arguments: the name of the innermost module that made the call, and the weights.
    """
    running: list[str] = []
    with ExitStack() as stack:
        for name, part in module.named_modules():
            stack.callback(part.register_forward_pre_hook(lambda *_, name=name: running.append(name), prepend=True).remove)
            stack.callback(part.register_forward_hook(lambda *_: _dropped(running), always_call=True).remove)
        stack.enter_context(_Catch(lambda weights: take(running[-1], weights) if running else None))
        yield


def _dropped(running: list[str]) -> None:
    running.pop()
