"""The weights of `nn.MultiheadAttention`, also inside PyTorch's encoders, whose fused path computes no weights."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from typing import Any

import torch
from torch import nn

from regard.analysis.function_calls import Watch
from regard.analysis.observation import Observer
from regard.private_torch import in_backward, without_function_mode

_ATTENTION = nn.MultiheadAttention.forward
_SIGNATURE = inspect.signature(_ATTENTION)
_ENCODERS = (nn.TransformerEncoder, nn.TransformerEncoderLayer)
_LOCK = Lock()
_ACTIVE: list[dict[Any, Callable[..., Any]]] = []
"""For each active capture and each class, a function that makes a method `forward` which reports to the capture."""
_OWN: dict[Any, Callable[..., Any]] = {}
"""The methods `forward` of the classes outside captures."""


def inside_encoders(module: nn.Module) -> set[nn.Module]:
    """Return all modules inside PyTorch's encoders, and the encoders.

    With hooks inside, an encoder would not take its fused path, and its result could change in the last bits.
    """
    return {part for encoder in module.modules() if isinstance(encoder, _ENCODERS) for part in encoder.modules()}


@contextmanager
def watch_modules(observer: Observer) -> Iterator[None]:
    """Report the weights of PyTorch's own attention modules while the context is open.

    The methods `forward` of the classes are replaced, so that a call by `super().forward` from a subclass is seen too. Modules
    that are not observed run as before.

    Args:
        observer: Gets the weights.
    """
    inside: list[nn.Module] = []

    def attention(forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def called(module: nn.MultiheadAttention, *positional: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or not observer.sees(module):
                return forward(module, *positional, **named)
            with without_function_mode(Watch):
                output = forward(module, *positional, **named)
                name = observer.name_of(module)
                observer.observe(name, lambda: report(module, name, *positional, **named))
            return output

        return called

    def report(module: nn.MultiheadAttention, name: str, *positional: Any, **named: Any) -> None:
        bound = _SIGNATURE.bind(module, *positional, **named)
        bound.apply_defaults()
        bound.arguments.update(need_weights=True, average_attn_weights=False)
        dropout, module.dropout = module.dropout, 0.0
        try:
            with _no_fused_path():
                weights: Any = _ATTENTION(*bound.args, **bound.kwargs)[1]
        finally:
            module.dropout = dropout
        # A call without a batch has weights (H,Q,K).
        same = bound.arguments["query"] is bound.arguments["key"]
        observer.take(name, weights if weights.ndim == 4 else weights[None], same)

    def encoder(forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def called(module: nn.Module, *positional: Any, **named: Any) -> Any:
            layers = module.layers if isinstance(module, nn.TransformerEncoder) else [module]
            known = all(isinstance(layer, nn.TransformerEncoderLayer) for layer in layers)
            if torch.compiler.is_compiling() or inside or not known or not observer.sees(module):
                return forward(module, *positional, **named)
            before = len(observer.calls)
            inside.append(module)
            try:
                with without_function_mode(Watch):
                    output = forward(module, *positional, **named)
                    expected = {
                        observer.name_of(part)
                        for part in module.modules()
                        if isinstance(part, nn.MultiheadAttention) and observer.selection.includes(observer.name_of(part))
                    }
                    if {call.name for call in observer.calls[before:]} != expected and not in_backward():
                        del observer.calls[before:]
                        for name in sorted(expected)[:1]:
                            observer.observe(name, lambda: again(forward, module, *positional, **named))
                        for name in sorted(expected - {call.name for call in observer.calls[before:]}):
                            observer.miss(name)
            finally:
                inside.pop()
            return output

        return called

    def again(forward: Callable[..., Any], module: nn.Module, *positional: Any, **named: Any) -> None:
        """Run an encoder without its fused path, so that it computes the weights of the attention inside."""
        if any(part.training for part in module.modules()):  # its random numbers and statistics would change
            raise RuntimeError("the encoder is in training mode")
        with _no_fused_path():
            forward(module, *positional, **named)

    builders: dict[Any, Callable[..., Any]] = {nn.MultiheadAttention: attention, **dict.fromkeys(_ENCODERS, encoder)}
    with _LOCK:
        if not _ACTIVE:
            _OWN.update({each: each.forward for each in builders})
        _ACTIVE.append(builders)
        _patch()
    try:
        yield
    finally:
        with _LOCK:  # in threads, captures may end in another order than they began
            _ACTIVE.remove(builders)
            _patch()


def _patch() -> None:
    """Replace the methods of the classes by those that report to all active captures."""
    for each, forward in _OWN.items():
        for builders in _ACTIVE:
            forward = builders[each](forward)
        each.forward = forward


@contextmanager
def _no_fused_path() -> Iterator[None]:
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
