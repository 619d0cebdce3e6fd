"""Multiplicative attention: the score is a product of query and key.

    score(q, k) = q·k               `Dot`            weights = softmax_k score(q, k),    context = Σ_k weight_k value_k
    score(q, k) = q·k / √D          `ScaledDot`
    score(q, k) = k·(W q)           `General`

In code: `product_scores`. The module `self_attention` contains the scaled form with its own projections.
"""

import math
from abc import abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.attend import is_products_fast
from regard.attention.base import AttentionOutput, Memory
from regard.attention.masks import combine_masks, fused_mask, match_axes
from regard.attention.normalizers import is_softmax
from regard.attention.scored import ScoredAttention


def product_scores(query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], scale: float = 1.0) -> Float[Tensor, "B Q K"]:
    """Return s_ij = scale · q_i·k_j for all queries and keys in one matrix product."""
    scores = query @ key.transpose(1, 2)
    return scores if scale == 1 else scale * scores


class ProductBase(ScoredAttention):
    """Base class of mechanisms with score = scale · a(q)·b(k), where functions a and b project queries and keys.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for the class's default.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`; ignored by classes without parameters.
        dtype: Type of the parameters, as in `torch.nn`; ignored by classes without parameters.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, the widths differ and the score needs equal ones, the
            normalizer is unknown, or scale or dropout is out of its range.
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
        self.build_parameters(device, dtype)

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Build the parameters of the projections. The default builds nothing."""

    @abstractmethod
    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return a(q), by which the prepared keys b(k) are multiplied."""

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """Return scale · a(q)·b(k)."""
        return product_scores(self.project_query(query), memory.key, self.scale)

    def fused(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        attn_mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        *,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Return the result of PyTorch's fused kernel, if no weights are needed and the normalizer is a softmax.

        The result is None where two matrix products are faster (`attend.is_products_fast`).
        """
        batch, keys = memory.value.shape[:2]
        if need_weights or not is_softmax(self.normalizer) or is_products_fast(query, keys):
            return None
        mask = combine_masks(memory.key_mask, attn_mask, score_bias, batch=batch, queries=query.shape[1], keys=keys)
        mask, bias = (None if x is None else match_axes(x, 1) for x in (mask, score_bias))
        projected = self.project_query(query)[:, None]
        context = nn.functional.scaled_dot_product_attention(
            projected,
            memory.key[:, None],
            memory.value[:, None],
            attn_mask=fused_mask(mask, bias, projected.dtype),
            dropout_p=self.dropout if self.training else 0.0,
            scale=self.scale,
        )
        return AttentionOutput(context[:, 0])


class _PlainDot(ProductBase):
    """Base class of `Dot` and `ScaledDot`: score = scale · q·k."""

    equal_widths = True

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Dq"]:
        """Return the query itself."""
        return query


class Dot(_PlainDot):
    """score(q, k) = q·k, for queries and keys of the same width; no parameters.

    Reference: Luong, Pham, Manning 2015, eq. 8.

    The arguments are those of `ProductBase`.

    Example:
        >>> attention = Dot(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    supports_fused = True


class ScaledDot(_PlainDot):
    """score(q, k) = q·k / √D, for queries and keys of the same width D; no parameters.

    The scale keeps the variance of the scores independent of D, so the softmax does not saturate.

    Reference: Vaswani et al. 2017, eq. 1.

    The arguments are those of `ProductBase`; a `scale` of None stands for 1/√D.

    Example:
        >>> attention = ScaledDot(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    supports_fused = True

    def default_scale(self) -> float:
        """Return 1/√D."""
        return 1 / math.sqrt(self.query_size)


class General(ProductBase):
    """score(q, k) = k·(W q), W (Dk,Dq).

    Reference: Luong, Pham, Manning 2015, eq. 8 (h_t is the query, h̄_s the key).

    The arguments are those of `ProductBase`.

    Example:
        >>> attention = General(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    supports_fused = True

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Build W."""
        self.projection = nn.Linear(self.query_size, self.key_size, bias=False, device=device, dtype=dtype)

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Dk"]:
        """Return W q. W is applied to queries, because a decoder's step has fewer queries than keys."""
        return self.projection(query)
