"""The weights of `nn.MultiheadAttention`, also inside PyTorch's encoders, whose fused path computes no weights."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.private_torch import without_function_mode

_SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)

Take = Callable[[str, Tensor, bool], None]
"""Function that gets a module's name, the weights (B,H,Q,K), and whether queries and keys were the same tensor."""


def find_encoders(module: nn.Module) -> list[nn.Module]:
    """Return the outermost encoders and encoder layers of PyTorch, which may take the fused path."""
    layers = module.layers if type(module) is nn.TransformerEncoder else [module]
    if all(type(layer) is nn.TransformerEncoderLayer for layer in layers):
        return [module]
    return [encoder for child in module.children() for encoder in find_encoders(child)]


@contextmanager
def replace_forward(module: nn.Module, build: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace the method `forward` of a module with `build(forward)` while the context is open."""
    own = vars(module).get("forward")
    module.forward = build(module.forward)
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def reporting_attention(
    module: nn.MultiheadAttention, name: str, take: Take, forward: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a `forward` with the same results that also reports the weights of all heads, before dropout."""

    def called(*positional: Any, **named: Any) -> Any:
        with without_function_mode():
            output = forward(*positional, **named)
        bound = _SIGNATURE.bind(module, *positional, **named)
        bound.apply_defaults()
        bound.arguments.update(need_weights=True, average_attn_weights=False)
        dropout, module.dropout = module.dropout, 0.0
        try:
            with torch.no_grad(), _no_fused_path():
                weights = forward(*bound.args[1:], **bound.kwargs)[1]
        finally:
            module.dropout = dropout
        # A call without a batch has weights (H,Q,K).
        take(name, weights if weights.ndim == 4 else weights[None], bound.arguments["query"] is bound.arguments["key"])
        return output

    return called


def reporting_encoder(names: set[str], calls: list[Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `forward` of an encoder with the same output that also records the weights of all attention inside.

    PyTorch's fused path computes no weights. If it was taken, the encoder runs again without it, to record the weights.

    Args:
        names: Names of the attention modules inside the encoder whose weights are wanted.
        calls: List to which these modules add their calls, each with a `name`.
        forward: The encoder's own `forward`.
    """

    def run(*positional: Any, **named: Any) -> Any:
        before = len(calls)
        with without_function_mode():
            output = forward(*positional, **named)
        if {call.name for call in calls[before:]} != names:
            del calls[before:]
            with torch.no_grad(), _no_fused_path():
                forward(*positional, **named)
        return output

    return run


@contextmanager
def _no_fused_path() -> Iterator[None]:
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
