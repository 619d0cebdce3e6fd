"""Multiplicative attention: the score is a product of query and key.

    score(q, k) = q·k               `Dot`            weights = softmax_k score(q, k),    context = Σ_k weight_k value_k
    score(q, k) = q·k / √D          `ScaledDot`
    score(q, k) = k·(W q)           `General`

In code: `product_scores`. The module `self_attention` contains the scaled form with its own projections.
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.attend import is_products_fast
from regard.attention.base import AttentionOutput, Memory
from regard.attention.capabilities import LinearScore, Reweight, Unchanged, capability, is_plain
from regard.attention.masks import fused_mask, match_axes
from regard.attention.normalizers import is_softmax
from regard.attention.scored import ScoredAttention


def product_scores(query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], scale: float = 1.0) -> Float[Tensor, "B Q K"]:
    """Return s_ij = scale · q_i·k_j for all queries and keys in one matrix product."""
    return scale * (query @ key.transpose(1, 2))


class ProductBase(ScoredAttention):
    """Base class of mechanisms with score = scale · a(q)·b(k), where functions a and b project queries and keys.

    If no weights are needed, PyTorch's fused attention may compute the context.
    """

    supports_fused = Unchanged("scores", "normalized_scores", "mix")

    @abstractmethod
    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return a(q), by which the prepared keys b(k) are multiplied."""

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """Return scale · a(q)·b(k)."""
        return product_scores(self.project_query(query), memory.key, self.scale)

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
        """Attend with each query; see `Attention.attend`.

        If no weights are needed, `reweight` is None and the normalizer is a softmax, PyTorch's fused kernel computes the
        context, unless two matrix products are faster (`attend.is_products_fast`).
        """
        self.refuse_state(state)
        fused = self.supports_fused and is_softmax(self.normalizer) and reweight is None
        fused = fused and not is_products_fast(query, memory.key.shape[1])
        if need_weights or not fused:
            return super().attend(
                query, memory, state, attn_mask=attn_mask, score_bias=score_bias, reweight=reweight, need_weights=need_weights
            )
        mask = self.check(query, memory, attn_mask, score_bias)
        mask = None if mask is None else match_axes(mask, 1)
        projected, key, value = self.project_query(query)[:, None], memory.key[:, None], memory.value[:, None]
        bias = None if score_bias is None else match_axes(score_bias, 1)
        context = nn.functional.scaled_dot_product_attention(
            projected,
            key,
            value,
            attn_mask=fused_mask(mask, bias, projected.dtype),
            dropout_p=self.dropout if self.training else 0.0,
            scale=self.scale,
        )
        return AttentionOutput(context[:, 0]), None


class _PlainDot(ProductBase):
    """Base class of `Dot` and `ScaledDot`: score = scale · q·k."""

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Dq"]:
        """Return the query itself."""
        return query

    @capability
    def linear_score(self) -> LinearScore | None:
        """Return W = scale · I; see `Attention.linear_score`."""
        if not is_softmax(self.normalizer) or self.drops():
            return None
        return LinearScore(None, scale=self.scale)


class Dot(_PlainDot):
    """score(q, k) = q·k, for queries and keys of the same width; no parameters.

    Reference: Luong, Pham, Manning 2015, eq. 8.

    Args:
        query_size: Dq = Dk, ≥ 1.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Ignored; there are no parameters.
        dtype: Ignored; there are no parameters.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, the normalizer is unknown, or scale or dropout is out of
            its range.

    Example:
        >>> attention = Dot(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    def __init__(
        self,
        query_size: int,
        *,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(query_size, normalizer=normalizer, scale=scale, dropout=dropout)


class ScaledDot(_PlainDot):
    """score(q, k) = q·k / √D, for queries and keys of the same width D; no parameters.

    The scale keeps the variance of the scores independent of D, so the softmax does not saturate.

    Reference: Vaswani et al. 2017, eq. 1.

    Args:
        query_size: D = Dq = Dk, ≥ 1.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1/√D.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Ignored; there are no parameters.
        dtype: Ignored; there are no parameters.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, the normalizer is unknown, or scale or dropout is out of
            its range.

    Example:
        >>> attention = ScaledDot(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    def __init__(
        self,
        query_size: int,
        *,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(query_size, normalizer=normalizer, scale=scale, dropout=dropout)
        self.scale = 1 / math.sqrt(query_size) if scale is None else self.scale


class General(ProductBase):
    """score(q, k) = k·(W q), W (Dk,Dq).

    Reference: Luong, Pham, Manning 2015, eq. 8 (h_t is the query, h̄_s the key).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, the normalizer is unknown, or scale or dropout is out of
            its range.

    Example:
        >>> attention = General(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

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
        super().__init__(query_size, key_size=key_size, normalizer=normalizer, scale=scale, dropout=dropout)
        self.projection = nn.Linear(query_size, self.key_size, bias=False, device=device, dtype=dtype)

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Dk"]:
        """Return W q. W is applied to queries, because a decoder's step has fewer queries than keys."""
        return self.projection(query)

    @capability
    def linear_score(self) -> LinearScore | None:
        """Return scale · W; see `Attention.linear_score`."""
        if not is_plain(self.projection) or not is_softmax(self.normalizer) or self.drops():
            return None
        return LinearScore(self.projection.weight if self.scale == 1 else self.scale * self.projection.weight)
