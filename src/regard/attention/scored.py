"""Base classes of mechanisms with one head: weights for each query and key, and a weighted sum of the values.

    weights = normalizer(scores(query, key)),    context = Σ_k weight_k value_k          `ScoredAttention`

`WeightedAttention` is the base of all, also of mechanisms whose weights are not a function of scores alone.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_dropout, check_scale, check_size
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.masks import add_bias, combine_masks, zero_masked
from regard.attention.normalizers import build_normalizer, is_softmax, keeps_order
from regard.errors import ConfigError
from regard.shapes import check_shape


class Weighed(NamedTuple):
    """Result of `WeightedAttention.weigh`."""

    weights: Float[Tensor, "B Q K"]
    """The weights, after `reweight`."""
    state: Any = None
    """State for the next call; None for a mechanism without a state."""
    loss: Float[Tensor, ""] | None = None
    """The mechanism's own loss, if it has one."""


class WeightedAttention(Attention):
    """context = Σ_k weight_k value_k, with weights that a subclass computes (`weigh`). One head.

    This class checks the arguments of a call once, and computes the context from the weights.
    """

    dropout: float = 0.0
    """Probability to drop a weight in training mode. Reported weights are those before dropout."""

    @abstractmethod
    def weigh(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: Any,
        mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        reweight: Reweight | None,
    ) -> Weighed:
        """Return the weights of each query, zero where the mask is False.

        Args:
            query: The queries, which fit the memory.
            memory: Result of `prepare`.
            state: State of the previous call; None for the first call.
            mask: Joined masks, broadcasting to (B,Q,K): True where a query may attend to a key; None for all keys.
            score_bias: As for `attend`.
            reweight: As for `attend`; a subclass calls it by `capabilities.reweighted`.
        """

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: Any = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, Any]:
        """Attend with each query; see `Attention.attend`."""
        if state is not None and not self.stateful:
            self.refuse_state(state)
        if self.sequential:
            self.refuse_open_axis(query)
        batch, keys = memory.value.shape[:2]
        if query.ndim != 3 or (query.shape[0], query.shape[2]) != (batch, self.query_size):
            check_shape("query", query, f"B Q {self.query_size}", {"B": batch})
        if reweight is None and self.supports_fused:
            output = self.fused(query, memory, attn_mask, score_bias, need_weights=need_weights)
            if output is not None:
                return output, None
        mask = combine_masks(memory.key_mask, attn_mask, score_bias, batch=batch, queries=query.shape[1], keys=keys)
        weights, state, loss = self.weigh(query, memory, state, mask, score_bias, reweight)
        return AttentionOutput(self.mix(weights, memory), weights if need_weights else None, loss), state

    def fused(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        attn_mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        *,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Return the result of a fused kernel, or None where none is used; called only if `supports_fused` is True."""
        return None

    def mix(self, weights: Float[Tensor, "B Q K"], memory: Memory) -> Float[Tensor, "B Q Dv"]:
        """Return the context, Σ_k weight_k value_k; in training mode, weights are dropped with probability `dropout`."""
        kept = nn.functional.dropout(weights, self.dropout) if self.drops() else weights
        return kept.to(memory.value.dtype) @ memory.value

    def drops(self) -> bool:
        """Return whether dropout is active: in training mode, if its probability is above 0."""
        return self.training and self.dropout > 0


class ScoredAttention(WeightedAttention):
    """weights = normalizer(scores(query, key)), context = Σ_k weight_k value_k. One head, no state.

    A subclass defines how keys are projected once (`project_key`) and how scores are computed (`scores`).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for the class's default, which is 1 unless a class says otherwise. It is only
            stored here; your method `scores` multiplies by `self.scale`.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, the widths differ and the score needs equal ones, the
            normalizer is unknown, or scale or dropout is out of its range.

    Example:
        >>> class Distance(ScoredAttention):
        ...     def scores(self, query, memory):
        ...         return -torch.cdist(query, memory.key)
        >>> context, weights = Distance(8)(torch.randn(2, 5, 8), torch.randn(2, 9, 8))
        >>> weights.shape
        torch.Size([2, 5, 9])
    """

    equal_widths: ClassVar[bool] = False
    """Whether queries and keys must have the same width."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let each class declare `supports_fused` for itself: the kernel of a class may not fit the formula of a subclass."""
        super().__init_subclass__(**kwargs)
        cls.supports_fused = bool(vars(cls).get("supports_fused", False))

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.query_size = query_size
        self.key_size = query_size if key_size is None else key_size
        called = type(self).__name__
        for name, size in (("query_size", self.query_size), ("key_size", self.key_size)):
            check_size(called, name, size)
        if self.equal_widths and self.query_size != self.key_size:
            raise ConfigError(
                f"{called}(query_size={query_size}, key_size={key_size}): query and key must have the same width for this "
                "score; use General, Concat or Additive for two widths"
            )
        check_dropout(called, dropout)
        self.scale, self.dropout = check_scale(called, scale, default=self.default_scale()), dropout
        self.normalizer = build_normalizer(called, normalizer)
        self.normalized = bool(getattr(self.normalizer, "normalized", False))
        self.permutation_equivariant = type(self).permutation_equivariant and keeps_order(self.normalizer)

    def default_scale(self) -> float:
        """Return the factor of the scores if none is given."""
        return 1.0

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Da"]:
        """Return the part of the score that depends on the keys only; the keys themselves by default."""
        return key

    @abstractmethod
    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """Return the scores before mask and normalizer."""

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Memory:
        """Check the keys, set masked ones to zero and project them once; see `Attention.prepare`."""
        if key.ndim != 3 or key.shape[2] != self.key_size:
            check_shape("key", key, f"B K {self.key_size}")
        zeroed = zero_masked(key, key_mask)
        if value is None or value is key:
            return Memory(self.project_key(zeroed), zeroed, key_mask)
        check_shape("value", value, "B K Dv", {"B": key.shape[0], "K": key.shape[1]})
        return Memory(self.project_key(zeroed), zero_masked(value, key_mask), key_mask)

    def weigh(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: Any,
        mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        reweight: Reweight | None,
    ) -> Weighed:
        """Return normalizer(scores + score_bias)."""
        scores = self.scores(query, memory)
        if scores.shape[1:] != (query.shape[1], memory.value.shape[1]):
            sizes = {"B": len(query), "Q": query.shape[1], "K": memory.value.shape[1]}
            check_shape(f"the result of {type(self).__name__}.scores", scores, "B Q K", sizes)
        return Weighed(reweighted(self.normalized_scores(scores, mask, score_bias), mask, reweight))

    def normalized_scores(
        self, scores: Float[Tensor, "B Q K"], mask: Bool[Tensor, "..."] | None, score_bias: Float[Tensor, "..."] | None
    ) -> Float[Tensor, "B Q K"]:
        """Return the weights, normalizer(scores + score_bias), in the type of the scores."""
        if score_bias is None:
            return self.normalizer(scores, mask)
        return self.normalizer(add_bias(scores, score_bias), mask).to(scores.dtype)

    def is_softmax(self) -> bool:
        """Return whether the weights are a softmax of the scores, without dropout, so that a kernel may compute them."""
        return is_softmax(self.normalizer) and not self.drops()
