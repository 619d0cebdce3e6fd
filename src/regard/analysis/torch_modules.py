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
_ACTIVE: "list[ModuleWatch]" = []
_ORIGINAL: dict[Any, Callable[..., Any]] = {}
"""The methods `forward` of the classes outside captures."""


def inside_encoders(module: nn.Module) -> set[nn.Module]:
    """Return all modules inside PyTorch's encoders, and the encoders.

    With hooks inside, an encoder would not take its fused path, and its result could change in the last bits.
    """
    return {part for encoder in module.modules() if isinstance(encoder, _ENCODERS) for part in encoder.modules()}


class ModuleWatch:
    """A context in which an observer gets the weights of PyTorch's own attention modules.

    The methods `forward` of the classes are replaced, so that a call by `super().forward` from a subclass is seen too. Modules
    that are not observed run as before.

    Args:
        observer: Gets the weights.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._is_inside = False
        self._methods: dict[Any, Callable[..., Any]] = {
            nn.MultiheadAttention: self._attention,
            **dict.fromkeys(_ENCODERS, self._encoder),
        }

    def __enter__(self) -> None:
        with _LOCK:
            if not _ACTIVE:
                _ORIGINAL.update({each: each.forward for each in self._methods})
            _ACTIVE.append(self)
            _patch()

    def __exit__(self, *_: object) -> None:
        with _LOCK:  # in threads, captures may end in another order than they began
            _ACTIVE.remove(self)
            _patch()

    def wrap(self, kind: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method `forward` for a class, which calls `forward` and reports to the observer."""
        method = self._methods[kind]

        @wraps(forward)
        def called(module: nn.Module, *positional: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or not self._observer.sees(module):
                return forward(module, *positional, **named)
            return method(forward, module, positional, named)

        return called

    def _attention(self, forward: Callable[..., Any], module: nn.Module, positional: tuple, named: dict[str, Any]) -> Any:
        with without_function_mode(Watch):
            output = forward(module, *positional, **named)
            name = self._observer.name_of(module)
            self._observer.observe(name, lambda: self._report(module, name, positional, named))
        return output

    def _report(self, module: Any, name: str, positional: tuple, named: dict[str, Any]) -> None:
        """Compute the weights of a call of `nn.MultiheadAttention` by a second call, without dropout."""
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
        self._observer.take(name, weights if weights.ndim == 4 else weights[None], same)

    def _encoder(self, forward: Callable[..., Any], module: Any, positional: tuple, named: dict[str, Any]) -> Any:
        layers = module.layers if isinstance(module, nn.TransformerEncoder) else [module]
        if self._is_inside or not all(isinstance(layer, nn.TransformerEncoderLayer) for layer in layers):
            return forward(module, *positional, **named)
        observer, before = self._observer, len(self._observer.calls)
        self._is_inside = True
        try:
            with without_function_mode(Watch):
                output = forward(module, *positional, **named)
                names = {observer.name_of(part) for part in module.modules() if isinstance(part, nn.MultiheadAttention)}
                expected = set(filter(observer.selection.includes, names))
                if {call.name for call in observer.calls[before:]} != expected and not in_backward():
                    del observer.calls[before:]
                    for name in sorted(expected)[:1]:
                        observer.observe(name, lambda: _run_unfused(forward, module, positional, named))
                    for name in sorted(expected - {call.name for call in observer.calls[before:]}):
                        observer.miss(name)
        finally:
            self._is_inside = False
        return output


def _run_unfused(forward: Callable[..., Any], module: nn.Module, positional: tuple, named: dict[str, Any]) -> None:
    """Run an encoder without its fused path, so that it computes the weights of the attention inside."""
    if any(part.training for part in module.modules()):  # its random numbers and statistics would change
        raise RuntimeError("the encoder is in training mode")
    with _no_fused_path():
        forward(module, *positional, **named)


def _patch() -> None:
    """Replace the methods of the classes by those that report to all active captures."""
    for kind, forward in _ORIGINAL.items():
        for watch in _ACTIVE:
            forward = watch.wrap(kind, forward)
        kind.forward = forward


@contextmanager
def _no_fused_path() -> Iterator[None]:
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
