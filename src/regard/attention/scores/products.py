"""Multiplicative attention: the score is a product of query and key.

    score(q, k) = q·k               `Dot`            weights = softmax_k score(q, k),    context = Σ_k weight_k value_k
    score(q, k) = q·k / √D          `ScaledDot`
    score(q, k) = k·(W q)           `General`
    score(q, k) = (W_q q + b_q)·(W_k k + b_k) / √D          `SelfAttention`, with values W_v x + b_v

In code: `product_scores`.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.heads.attend import attend
from regard.attention.masks import Masks
from regard.attention.scores.base import ScoredAttention
from regard.shapes import check_shape


def product_scores(query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], scale: float = 1.0) -> Float[Tensor, "B Q K"]:
    """Return s_ij = scale · q_i·k_j for all queries and keys in one matrix product."""
    scores = query @ key.transpose(1, 2)
    return scores if scale == 1 else scale * scores


class ProductBase(ScoredAttention):
    """Base class of mechanisms with score = scale · a(q)·b(k), where functions a and b project queries and keys.

    The arguments are those of `ScoredAttention`.
    """

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return a(q), by which the prepared keys b(k) are multiplied; the queries themselves by default."""
        return query

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        return product_scores(self.project_query(query), memory.key, self.scale)

    def fused(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, masks: Masks, *, need_weights: bool
    ) -> tuple[Float[Tensor, "B Q Dv"], None] | None:
        """Return the context of PyTorch's fused kernel, which multi-head attention uses too, if that needs no weights."""
        if need_weights or not self.has_plain_softmax():
            return None
        mask, bias = (x if x is None or x.ndim < 3 else x[:, None] for x in masks[:2])  # with an axis for the head
        context, _ = attend(
            self.project_query(query)[:, None],
            memory.key[:, None],
            memory.value[:, None],
            mask,
            bias,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            need_weights=False,
        )
        return context[:, 0], None


class Dot(ProductBase):
    """score(q, k) = q·k, for queries and keys of the same width; no parameters.

    Reference: Luong, Pham, Manning 2015, eq. 8.

    The arguments are those of `ScoredAttention`.

    Example:
        >>> context, weights = Dot(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True
    equal_widths = True


class ScaledDot(Dot):
    """score(q, k) = q·k / √D, for queries and keys of the same width D; no parameters.

    The scale keeps the variance of the scores independent of D, so the softmax does not saturate.

    Reference: Vaswani et al. 2017, eq. 1.

    The arguments are those of `ScoredAttention`; a `scale` of None stands for 1/√D.

    Example:
        >>> context, weights = ScaledDot(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True

    def default_scale(self) -> float:
        return 1 / math.sqrt(self.query_size)


class General(ProductBase):
    """score(q, k) = k·(W q), W (Dk,Dq).

    Reference: Luong, Pham, Manning 2015, eq. 8 (h_t is the query, h̄_s the key).

    The arguments are those of `ScoredAttention`.

    Example:
        >>> context, weights = General(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        self.projection = nn.Linear(self.query_size, self.key_size, bias=False, device=device, dtype=dtype)

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Dk"]:
        """Return W q. W is applied to queries, because a decoder's step has fewer queries than keys."""
        return self.projection(query)


class SelfAttention(ScaledDot):
    """q = W_q x + b_q, k = W_k x + b_k, v = W_v x + b_v; weights = softmax(q kᵀ / √D), context = weights·v.

    It has one head, three maps D → D with biases, and no output map: context (B,T,D), weights (B,T,T). `attention(x)` attends
    within x; `attention(query, key, value)` attends to other keys, like every mechanism.

    Reference: Vaswani et al. 2017, section 3.2.1. Differs from the paper: the maps have biases, and there is one head without
    an output map. `MultiHead` is the paper's attention.

    The arguments are those of `ScoredAttention`; a `scale` of None stands for 1/√D.

    Example:
        >>> context, weights = SelfAttention(256)(torch.randn(2, 9, 256))
    """

    supports_fused = True

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        size = self.query_size
        self.query_projection = nn.Linear(size, size, device=device, dtype=dtype)
        self.key_projection = nn.Linear(size, size, device=device, dtype=dtype)
        self.value_projection = nn.Linear(size, size, device=device, dtype=dtype)

    def context_size(self, value_size: int) -> int:
        """Return D, the width of a query."""
        return self.query_size

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        return self.query_projection(query)

    def build_memory(self, key: Tensor, value: Tensor, key_mask: Tensor | None) -> Memory:
        """Return W_k x + b_k and W_v x + b_v; a masked value becomes b_v, and its weight is zero."""
        check_shape("value", value, f"B K {self.key_size}")
        return Memory(self.key_projection(key), self.value_projection(value), key_mask)
