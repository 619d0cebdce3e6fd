"""What a mechanism can do beyond its contract: the questions that fast paths and tools ask it.

    attention.linear_score()              the weights of its score, for loops that compute the score themselves
    attention.supports_fused              whether a kernel may compute scores and context at once
    attention.observe(observer)           every result of `attend`, while a context is open
    attention.attend(…, reweight=…)       other weights in place of its own, before the context is formed

Nobody asks for the type of a mechanism. A subclass that changes the formula of its parent loses the parent's fast paths, unless
it declares its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import ShapeError

Reweight = Callable[[Tensor, Tensor], Tensor]
"""A function of weights (…,K) and a boolean mask that broadcasts to them (True where a query may attend); returns the weights
that are used, and reported, in their place."""


def reweighted(weights: Tensor, mask: Tensor | None, reweight: Reweight | None) -> Tensor:
    """Apply a function to weights; None keeps them as they are.

    Raises:
        ShapeError: If the function returns weights of another shape.
    """
    if reweight is None:
        return weights
    found = reweight(weights, torch.ones_like(weights, dtype=torch.bool) if mask is None else mask)
    if found.shape != weights.shape:
        raise ShapeError(
            f"reweight returned weights of shape {tuple(found.shape)}, expected those of the weights that it got: "
            f"{tuple(weights.shape)}"
        )
    return found


@dataclass(frozen=True)
class LinearScore:
    """The weights of a score: softmax_k of v·tanh(W q + k), or of k·(W q), where k are the keys that `prepare` projects."""

    query_weight: Tensor
    """W (Da,Dq)."""
    score_weight: Tensor | None = None
    """v (Da) of an additive score; None for a product."""


@dataclass(frozen=True)
class Observation:
    """One call of `attend`."""

    query: Tensor
    """(B,Q,Dq)."""
    key: Tensor | None
    """The keys that `prepare` got last; None if it was not called while the mechanism was observed."""
    weights: Tensor
    """(B,Q,K), with heads (B,H,Q,K); detached."""

    @property
    def within(self) -> bool:
        """Whether the queries are the keys."""
        return self.key is self.query


class Observable:
    """A mechanism that reports the results of `attend`."""

    observed: bool = False
    """Whether somebody observes this mechanism. Paths that compute attention without `attend` are not taken then."""

    @contextmanager
    def observe(self, observer: Callable[[Observation], None]) -> Iterator[None]:
        """Call a function with the result of every `attend`, as long as the context is open.

        The weights are computed although a caller doesn't ask for them; callers get what they would have got. Several
        observers may be there at once.

        Args:
            observer: Called after each `attend`.
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
