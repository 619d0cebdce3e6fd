"""Luong's concat score: additive attention in which one matrix W projects the query and the key.

    score(q, k) = v · tanh(W [q; k])        `Concat`, as in the paper: W (Da, Dq + Dk) = [W_q, W_k]
    score(q, k) = v · tanh(W (q + k))       `SumConcat`, as in a tutorial: one W (Da, D) projects both, W_q = W_k = W

Because W [q; k] = W_q q + W_k k, the keys are projected once, and the score is `additive.plain_additive_scores` of
`query_part(q, W)` and `key_part(k, W)`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.additive import AdditiveBase
from regard.attention.base import Memory
from regard.attention.capabilities import LinearScore, Unchanged, capability, is_plain
from regard.attention.linear import concatenated_pairs


def query_part(query: Float[Tensor, "B Q Dq"], weight: Float[Tensor, "Da D"]) -> Float[Tensor, "B Q Da"]:
    """Return W_q q, where W_q is the first Dq columns of W."""
    return linear(query, weight[:, : query.shape[-1]])


def key_part(key: Float[Tensor, "B K Dk"], weight: Float[Tensor, "Da D"]) -> Float[Tensor, "B K Da"]:
    """Return W_k k, where W_k is the last Dk columns of W."""
    return linear(key, weight[:, -key.shape[-1] :])


def summed_pairs(query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"]) -> Float[Tensor, "B Q K D"]:
    """Return q_i + k_j for each query and key."""
    return query[:, :, None] + key[:, None]


class _ConcatBase(AdditiveBase):
    """An additive score with one matrix W. A linear map that is not plain is called with the result of `pairs`."""

    projection: nn.Linear
    pairs = staticmethod(concatenated_pairs)
    """Function that returns the input of the linear map for each query and key (B,Q,K,D)."""
    supports_fused = Unchanged("scores", "normalized_scores", "mix", linear="projection")

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """Return scale · v·tanh(W x), where x is the pair of a query and a key."""
        if is_plain(self.projection):
            return super().scores(query, memory)
        return self.projection(self.pairs(query, memory.key)).tanh() @ self.score_vector()

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return W_q q."""
        return query_part(query, self.projection.weight)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Da"]:
        """Return W_k k; k itself if the map is not plain."""
        return key_part(key, self.projection.weight) if is_plain(self.projection) else key

    @capability
    def linear_score(self) -> LinearScore | None:
        """Return W_q and scale · v; None without a softmax or with active dropout; see `Attention.linear_score`."""
        return self._linear_score(self.projection)


class Concat(_ConcatBase):
    """Luong's concat as the paper defines it: score(q, k) = v·tanh(W [q; k]).

    W (Da, Dq + Dk) is one matrix, whose first Dq columns multiply the query. Because W [q; k] = W_q q + W_k k, the keys are
    projected once.

    Reference: Luong, Pham, Manning 2015, eq. 8.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, the normalizer is unknown, or scale or dropout is out of its
            range.

    Example:
        >>> attention = Concat(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        attention_size: int | None = None,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size,
            key_size=key_size,
            attention_size=attention_size,
            normalizer=normalizer,
            scale=scale,
            dropout=dropout,
            device=device,
            dtype=dtype,
        )
        self.projection = nn.Linear(query_size + self.key_size, self.attention_size, bias=False, device=device, dtype=dtype)


class SumConcat(_ConcatBase):
    """Luong's concat as a well-known tutorial writes it.

    score(q, k) = v·tanh(W (q + k)), for queries and keys of the same width.

    Differs from the paper: the paper's W has separate columns for query and key (`Concat`).

    Args:
        query_size: Dq = Dk, width of queries and keys, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, the normalizer is unknown, or scale or dropout is out of its
            range.

    Example:
        >>> attention = SumConcat(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    pairs = staticmethod(summed_pairs)

    def __init__(
        self,
        query_size: int,
        *,
        attention_size: int | None = None,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size,
            key_size=None,
            attention_size=attention_size,
            normalizer=normalizer,
            scale=scale,
            dropout=dropout,
            device=device,
            dtype=dtype,
        )
        self.projection = nn.Linear(query_size, self.attention_size, bias=False, device=device, dtype=dtype)
