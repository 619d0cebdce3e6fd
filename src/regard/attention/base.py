"""The contract that every attention mechanism keeps.

    out = attention(query, key, value, key_mask=…, attn_mask=…, need_weights=True)

is the sum of two steps that decoders call themselves: `prepare` projects the keys once, `attend` uses them for each query.
Masks are boolean, and True means "may attend". A row with nothing to attend to gives zero weights, a zero context and finite
gradients. Nothing is kept on the module between calls.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.capabilities import LinearScore, Observable, Reweight


@dataclass(frozen=True)
class AttentionOutput:
    """What attention gives for a batch of queries."""

    context: Float[Tensor, "B Q Dv"]
    """Σ_k weight_k value_k."""
    weights: Tensor | None = None
    """(B,Q,K), with heads (B,H,Q,K), before dropout; None if they were not asked for."""
    loss: Tensor | None = None
    """A scalar where the mechanism has a loss of its own (coverage)."""


@dataclass(frozen=True)
class Memory:
    """Keys and values made ready once, to be attended to many times."""

    key: Float[Tensor, "B K Da"]
    """What the scores are computed from: the projected keys where the mechanism projects them."""
    value: Float[Tensor, "B K Dv"]
    """Zero where `key_mask` is False."""
    key_mask: Bool[Tensor, "B K"] | None = None

    def select(self, index: Int[Tensor, " M"]) -> "Memory":
        """Keep the given rows of the batch, in the given order."""
        mask = None if self.key_mask is None else self.key_mask[index]
        return Memory(self.key[index], self.value[index], mask)


for _cls in (AttentionOutput, Memory):
    torch.export.register_dataclass(_cls, serialized_type_name=f"regard.attention.{_cls.__name__}")


@dataclass(frozen=True)
class HeadMaps:
    """The maps of an attention by scaled dot products: W_o [head_1; …; head_H] with head_h = softmax(q_h k_hᵀ / √E) v_h."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    num_heads: int
    """The number of heads H, of queries and keys alike."""
    rotate: Callable[[Tensor, int], Tensor] | None = None
    """Rotates queries or keys (B,H,T,E) at the positions from a given one on; None if positions play no role."""


class Attention(Observable, nn.Module, ABC):
    """Base of every mechanism that has a query."""

    normalized: bool = True
    """The weights of a row sum to one (to zero where there is nothing to attend to)."""
    permutation_equivariant: bool = True
    """Permuting the keys permutes the weights."""
    stateful: bool = False
    """The weights depend on earlier queries, which are taken in order."""

    has_loss: bool = False
    """Whether the output has a loss of its own, for the training loss."""
    supports_fused: bool = False
    """Whether a kernel may compute scores, weights and context at once, where no weights are asked for."""

    query_size: int
    """Dq, width of the queries."""
    key_size: int
    """Dk, width of the keys; values may have any width unless a class says otherwise."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Take the parent's fast paths from a class that changes the formula, unless it declares its own."""
        super().__init_subclass__(**options)
        own = cls.__dict__
        if "linear_score" not in own and not own.keys().isdisjoint(("prepare", "attend", "scores", "project_query")):
            cls.linear_score = Attention.linear_score  # type: ignore[method-assign]
        if "supports_fused" not in own and "scores" in own:
            cls.supports_fused = False

    def linear_score(self) -> LinearScore | None:
        """Return the weights of the score, for loops that compute scores and weights themselves.

        Returns:
            The weights if `prepare` and `attend` compute the formula of `LinearScore` and nothing else; None by default.
        """
        return None

    def context_size(self, value_size: int) -> int:
        """Return the width of the context of values of a given width: the same, unless the mechanism maps them."""
        return value_size

    @abstractmethod
    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Memory:
        """Project the keys once. Without `value`, the keys are the values."""

    @abstractmethod
    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: Any = None,
        *,
        attn_mask: Tensor | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, Any]:
        """Attend with each query.

        Args:
            query: The queries.
            memory: What `prepare` gave.
            state: What the call before gave, for a stateful mechanism; None to begin.
            attn_mask: Boolean (Q,K), (B,Q,K) or (B,H,Q,K); True where a query may attend to a key.
            reweight: Maps the weights to those used in their place, before the context is formed. It gets the rows that are
                computed together: all queries, or one after the other where weights depend on earlier ones.
            need_weights: Whether the weights are wanted; without them the fastest path is taken.

        Returns:
            The output, and the state for the next call (None for a mechanism without one).
        """

    def forward(
        self,
        query: Float[Tensor, "B Q Dq"],
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
        attn_mask: Tensor | None = None,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """Prepare and attend in one call."""
        memory = self.prepare(key, value, key_mask=key_mask)
        return self.attend(query, memory, attn_mask=attn_mask, need_weights=need_weights)[0]

    def head_maps(self) -> HeadMaps | None:
        """Return the maps of the heads if `prepare` and `attend` compute the formula of `HeadMaps` and nothing else."""
        return None
