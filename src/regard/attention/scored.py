"""Base class of most mechanisms: a score for each query and key, a normalizer, and a weighted sum of the values."""

from abc import abstractmethod
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_dropout, check_scale, check_size
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.masks import add_bias, combine_masks, zero_masked
from regard.attention.normalizers import build_normalizer, keeps_order
from regard.shapes import check_shape


class ScoredAttention(Attention):
    """weights = normalizer(scores(query, key)), context = Σ_k weight_k value_k. One head, no state.

    A subclass defines how keys are projected once (`project_key`) and how scores are computed (`scores`).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1. It is only stored here; your method `scores` multiplies by `self.scale`.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, the normalizer is unknown, or scale or dropout is out of
            its range.

    Example:
        >>> class Distance(ScoredAttention):
        ...     def scores(self, query, memory):
        ...         return -torch.cdist(query, memory.key)
        >>> context, weights = Distance(8)(torch.randn(2, 5, 8), torch.randn(2, 9, 8))
        >>> weights.shape
        torch.Size([2, 5, 9])
    """

    permutation_equivariant: bool = True
    stateful: bool = False

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
        check_dropout(called, dropout)
        self.scale, self.dropout = check_scale(called, scale, default=1.0), dropout
        self.normalizer = build_normalizer(called, normalizer)
        self.normalized = bool(getattr(self.normalizer, "normalized", False))
        self.permutation_equivariant = type(self).permutation_equivariant and keeps_order(self.normalizer)

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
        sizes = check_shape("key", key, f"B K {self.key_size}")
        zeroed = zero_masked(key, key_mask)
        if value is not None and value is not key:
            check_shape("value", value, "B K Dv", sizes)
            return Memory(self.project_key(zeroed), zero_masked(value, key_mask), key_mask)
        return Memory(self.project_key(zeroed), zeroed, key_mask)

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
        self.refuse_state(state)
        mask = self.check(query, memory, attn_mask, score_bias)
        scores = self.scores(query, memory)
        if scores.shape[1:] != (query.shape[1], memory.value.shape[1]):
            sizes = {"B": len(query), "Q": query.shape[1], "K": memory.value.shape[1]}
            check_shape(f"the result of {type(self).__name__}.scores", scores, "B Q K", sizes)
        weights = reweighted(self.normalized_scores(scores, mask, score_bias), mask, reweight)
        return AttentionOutput(self.mix(weights, memory), weights if need_weights else None), None

    def normalized_scores(
        self, scores: Float[Tensor, "B Q K"], mask: Bool[Tensor, "..."] | None, score_bias: Float[Tensor, "..."] | None
    ) -> Float[Tensor, "B Q K"]:
        """Return the weights, normalizer(scores + score_bias), in the type of the scores."""
        if score_bias is None:
            return self.normalizer(scores, mask)
        return self.normalizer(add_bias(scores, score_bias), mask).to(scores.dtype)

    def mix(self, weights: Float[Tensor, "B Q K"], memory: Memory) -> Float[Tensor, "B Q Dv"]:
        """Return the context, Σ_k weight_k value_k; in training mode, weights are dropped with probability `dropout`."""
        kept = nn.functional.dropout(weights, self.dropout, self.training)
        return kept.to(memory.value.dtype) @ memory.value

    def drops(self) -> bool:
        """Return whether dropout is active: in training mode, if its probability is above 0."""
        return self.training and self.dropout > 0

    def check(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        attn_mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None = None,
    ) -> Bool[Tensor, "..."] | None:
        """Check that query, memory, masks and bias fit together, and join the masks.

        Args:
            query: The queries.
            memory: Result of `prepare`.
            attn_mask: True where a query may attend to a key.
            score_bias: Numbers that are added to the scores.

        Returns:
            A mask that broadcasts to (B,Q,K); None if neither a mask nor a bias is given.

        Raises:
            ShapeError: If sizes do not match, a mask is not boolean, or the bias is not of a floating type.
        """
        batch, keys = memory.value.shape[:2]
        sizes = check_shape("query", query, f"B Q {self.query_size}", {"B": batch})
        return combine_masks(memory.key_mask, attn_mask, score_bias, batch=batch, queries=sizes["Q"], keys=keys)
