"""Base classes of mechanisms with one head: weights for each query and key, and a weighted sum of the values.

    weights = normalizer(scores(query, key)),    context = Σ_k weight_k value_k          `ScoredAttention`

`WeightedAttention` is the base of all, also of mechanisms whose weights are not a function of scores alone.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, TypedDict

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_number, check_scale, check_size
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight, is_exactly, reweighted
from regard.attention.fast.softmax import softmax
from regard.attention.masks import NO_MASKS, Masks, hide, resolve_masks, zero_masked, zero_rows
from regard.attention.normalizers.base import build_normalizer, keeps_order
from regard.attention.normalizers.softmax import Softmax
from regard.errors import ConfigError, RequestError
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
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, state: Any, masks: Masks, reweight: Reweight | None
    ) -> Weighed:
        """Return the weights of each query, zero where it may not attend; a subclass applies `reweight` by `finish_weights`."""

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
            raise RequestError(
                f"{type(self).__name__}.attend got a state, but its weights do not depend on earlier queries; "
                "leave the state out"
            )
        if self.sequential and torch.compiler.is_exporting() and not isinstance(query.shape[1], int):
            raise RequestError(
                f"{type(self).__name__} takes its queries one after the other, so torch.export needs to know their number; "
                "leave axis 1 of the query out of dynamic_shapes (or make it Dim.STATIC), and export a step with one query"
            )
        batch, keys = memory.value.shape[:2]
        if query.ndim != 3 or query.shape[::2] != (batch, self.query_size):  # `check_shape` is slower
            check_shape("query", query, f"B Q {self.query_size}", {"B": batch})
        masks = NO_MASKS
        if memory.key_mask is not None or attn_mask is not None or score_bias is not None:
            masks = resolve_masks(memory.key_mask, attn_mask, score_bias, batch=batch, queries=query.shape[1], keys=keys)
        if reweight is None and self.supports_fused:
            fused = self.fused(query, memory, masks, need_weights=need_weights)
            if fused is not None:
                context, found = fused
                shown = None if found is None else zero_rows(found, masks.empty)
                return AttentionOutput(zero_rows(context, masks.empty), shown), None
        weights, state, loss = self.weigh(query, memory, state, masks, reweight)
        return AttentionOutput(self.mix(weights, memory), weights if need_weights else None, loss), state

    def fused(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, masks: Masks, *, need_weights: bool
    ) -> tuple[Float[Tensor, "B Q Dv"], Float[Tensor, "B Q K"] | None] | None:
        """Return context and weights of a fused kernel, or None where none is used; called only if `supports_fused` is True."""
        return None

    def mix(self, weights: Float[Tensor, "B Q K"], memory: Memory) -> Float[Tensor, "B Q Dv"]:
        """Return Σ_k weight_k value_k; in training mode, weights are dropped with probability `dropout`."""
        if self.training and self.dropout:
            weights = nn.functional.dropout(weights, self.dropout)
        value = memory.value
        return (weights if weights.dtype == value.dtype else weights.to(value.dtype)) @ value


def finish_weights(weights: Float[Tensor, "B Q K"], masks: Masks, reweight: Reweight | None) -> Float[Tensor, "B Q K"]:
    """Return the weights with zeros in empty rows, or those that `reweight` puts in their place."""
    if masks.empty is not None:
        weights = zero_rows(weights, masks.empty)
    return weights if reweight is None else reweighted(weights, masks.allowed, reweight)


class UnscaledOptions(TypedDict, total=False):
    """Arguments of `ScoredAttention`, except `scale`, that subclasses pass on to it, documented there."""

    key_size: int | None
    normalizer: nn.Module | str | None
    dropout: float
    device: torch.device | str | None
    dtype: torch.dtype | None


class ScoreOptions(UnscaledOptions, total=False):
    """Arguments of `ScoredAttention` that subclasses pass on to it, documented there."""

    scale: float | None


class ScoredAttention(WeightedAttention):
    """weights = normalizer(scores(query, key)), context = Σ_k weight_k value_k. One head, no state.

    A subclass defines how keys are projected once (`project_key`) and how scores are computed (`scores`).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        normalizer: Module that computes weights from scores, or its name, such as "sparsemax"; None for a softmax.
        scale: Factor of the scores, > 0; None for the class's default, which is 1 unless a class says otherwise. Your method
            `scores` multiplies by `self.scale`.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters that `build_parameters` makes, as in `torch.nn`.
        dtype: Type of these parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, the widths differ and the score needs equal ones, the
            normalizer is unknown, or an option has the wrong type or is out of its range.

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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        called = type(self).__name__
        self.query_size = check_size(called, "query_size", query_size)
        self.key_size = check_size(called, "key_size", query_size if key_size is None else key_size)
        if self.equal_widths and self.query_size != self.key_size:
            raise ConfigError(
                f"{called}(query_size={query_size}, key_size={key_size}): query and key must have the same width for this "
                "score; use General, Concat or Additive for two widths"
            )
        self.dropout = check_number(called, "dropout", dropout, least=0, below=1)
        self.scale = check_scale(called, scale, default=self.default_scale())
        self.normalizer = build_normalizer(called, normalizer, 1)
        self.normalized = bool(getattr(self.normalizer, "normalized", False))
        self.permutation_equivariant = type(self).permutation_equivariant and keeps_order(self.normalizer)
        self.build_parameters(device, dtype)

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Build the parameters; a class with further arguments for them builds them in its constructor."""

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
            value = zeroed
        else:
            check_shape("value", value, "B K Dv", {"B": key.shape[0], "K": key.shape[1]})
            value = zero_masked(value, key_mask)
        return self.build_memory(zeroed, value, key_mask)

    def build_memory(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"], key_mask: Bool[Tensor, "B K"] | None
    ) -> Memory:
        """Return the projected keys, and the values; masked ones are already zero."""
        return Memory(self.project_key(key), value, key_mask)

    def weigh(self, query: Tensor, memory: Memory, state: Any, masks: Masks, reweight: Reweight | None) -> Weighed:
        """Return normalizer(scores + bias)."""
        scores = self.scores(query, memory)
        if scores.shape[1:] != (query.shape[1], memory.value.shape[1]):
            sizes = {"B": query.shape[0], "Q": query.shape[1], "K": memory.value.shape[1]}
            check_shape(f"the result of {type(self).__name__}.scores", scores, "B Q K", sizes)
        return Weighed(finish_weights(self.normalize(scores, masks), masks, reweight))

    def normalize(self, scores: Float[Tensor, "B Q K"], masks: Masks) -> Float[Tensor, "B Q K"]:
        """Return normalizer(scores + bias), in the type of the scores; the weights of empty rows have no meaning."""
        # The call of a module would cost as much as a small softmax.
        normalizer = softmax if self.has_plain_softmax() else self.normalizer
        if masks.bias is not None:
            return normalizer(hide(scores + masks.bias, masks.mask)).to(scores.dtype)
        return normalizer(hide(scores, masks.mask))

    def has_plain_softmax(self) -> bool:
        """Return whether the normalizer computes a softmax and nothing more, so that nothing needs to call it."""
        normalizer: Any = self._modules["normalizer"]  # `self.normalizer` takes five times as long
        return is_exactly(normalizer, Softmax)

    def is_softmax(self) -> bool:
        """Return whether the weights are a softmax of the scores, without dropout, so that a kernel may compute them."""
        return self.has_plain_softmax() and not (self.training and self.dropout)
