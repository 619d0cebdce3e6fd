"""Optional capabilities of a mechanism, for fast paths and for tools that inspect attention.

    attention.observe(observer)           calls a function after every `attend` inside a `with` block
    attention.attend(…, reweight=…)       replaces the weights before the context is computed

A fast path computes a formula from a module's parameters without calling the module, so it must not be used if a call of the
module would compute something else. `is_exactly` ensures that: a fast path serves the class that it was written for, and a
subclass runs the plain form. `is_plain` answers the same question for a linear map, which may have an adapter, hooks or
quantised weights.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ShapeError

Reweight = Callable[[Tensor, Tensor], Tensor]
"""A function of weights (…,K) and a boolean mask that broadcasts to them (True where a query may attend). It returns the
weights that are used and reported instead.
"""


# Methods of a formula that an instance may have replaced, as an observed mechanism does.
_REPLACEABLE = frozenset(("forward", "prepare", "attend", "step", "states", "before", "after"))


def is_exactly(module: nn.Module, cls: type[nn.Module]) -> bool:
    """Return whether a module is of this class, not of a subclass, and has neither hooks nor replaced methods."""
    if type(module) is not cls or not _REPLACEABLE.isdisjoint(vars(module)):
        return False
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return not hooks


def is_plain(linear: nn.Module) -> bool:
    """Return whether a call of the module computes x Wᵀ + b from its `weight` and `bias`, and nothing more."""
    # Tensor subclasses, such as quantised weights, have their own products. Forward passes call this function, so
    # `torch.compile` must be able to trace it.
    return is_exactly(linear, nn.Linear) and not hasattr(linear.weight, "__tensor_flatten__")


def reweighted(weights: Tensor, mask: Tensor | None, reweight: Reweight | None) -> Tensor:
    """Return the result of `reweight` for these weights, of the same shape; None leaves the weights unchanged."""
    if reweight is None:
        return weights
    found = reweight(weights, torch.ones_like(weights, dtype=torch.bool) if mask is None else mask)
    if found.shape != weights.shape:
        raise ShapeError(
            f"reweight returned weights of shape {tuple(found.shape)}, expected the shape of the weights that it got: "
            f"{tuple(weights.shape)}"
        )
    return found


@dataclass(frozen=True)
class Observation:
    """Inputs and weights of one call of `attend`."""

    query: Tensor
    """The queries (B,Q,Dq)."""
    key: Tensor | None
    """Keys of the last call of `prepare`; None if `prepare` was not called while the mechanism was observed."""
    weights: Tensor
    """The weights (B,Q,K), or (B,H,Q,K) with heads; detached."""

    @property
    def within(self) -> bool:
        """Whether the queries and the keys are the same tensor, as in self-attention."""
        return self.key is self.query


class Observable:
    """A mechanism that reports the results of `attend`."""

    observed: bool = False
    """Whether an observer is active. If True, only `attend` may compute attention; fast paths are off."""

    @contextmanager
    def observe(self, observer: Callable[[Observation], None]) -> Iterator[None]:
        """Call a function with the inputs and weights of every `attend` inside a `with` block.

        The weights are computed even if a caller does not need them, and callers still get their usual results. Several
        observers may be active at once.

        Args:
            observer: Function to call after each `attend`.
        """
        prepare, attend = self.prepare, self.attend  # type: ignore[attr-defined]
        before = {name: self.__dict__[name] for name in ("prepare", "attend", "observed") if name in self.__dict__}
        keys: list[Tensor] = []

        def prepare_observed(key: Tensor, value: Tensor | None = None, **options: Any) -> Any:
            keys[:] = [key]
            return prepare(key, value, **options)

        def attend_observed(
            query: Tensor, memory: Any, state: Any = None, *, need_weights: bool = True, **options: Any
        ) -> tuple[Any, Any]:
            out, state = attend(query, memory, state, need_weights=True, **options)
            observer(Observation(query, keys[0] if keys else None, out.weights.detach()))
            return (out if need_weights else replace(out, weights=None)), state

        self.__dict__.update(prepare=prepare_observed, attend=attend_observed, observed=True)
        try:
            yield
        finally:
            for name in ("prepare", "attend", "observed"):
                del self.__dict__[name]
            self.__dict__.update(before)  # type: ignore[arg-type]
