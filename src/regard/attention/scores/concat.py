"""Luong's concat score: additive attention in which one matrix W projects the query and the key.

    score(q, k) = v · tanh(W [q; k])        `Concat`, as in the paper: W (Da, Dq + Dk) = [W_q, W_k]
    score(q, k) = v · tanh(W (q + k))       `SumConcat`, as in a tutorial: one W (Da, D) projects both, W_q = W_k = W

In code: `additive.plain_additive_scores` of `query_part(q, W)` and `key_part(k, W)`.
"""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.base import Memory
from regard.attention.capabilities import is_plain
from regard.attention.masks import Masks
from regard.attention.scores.additive import Additive, AdditiveOptions
from regard.attention.scores.linear import concatenated_pairs


def query_part(query: Float[Tensor, "B Q Dq"], weight: Float[Tensor, "Da D"]) -> Float[Tensor, "B Q Da"]:
    """Return W_q q, where W_q is the first Dq columns of W."""
    return linear(query, weight[:, : query.shape[-1]])


def key_part(key: Float[Tensor, "B K Dk"], weight: Float[Tensor, "Da D"]) -> Float[Tensor, "B K Da"]:
    """Return W_k k, where W_k is the last Dk columns of W."""
    return linear(key, weight[:, -key.shape[-1] :])


class Concat(Additive):
    """Luong's concat as the paper defines it: score(q, k) = v·tanh(W [q; k]).

    W (Da, Dq + Dk) is one matrix, whose first Dq columns multiply the query. Because W [q; k] = W_q q + W_k k, the keys are
    projected once. A linear map that is not plain (see `is_plain`) is called with each pair [q; k].

    Reference: Luong, Pham, Manning 2015, eq. 8.

    The arguments are those of `Additive`, without a bias.

    Example:
        >>> context, weights = Concat(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True

    def __init__(self, query_size: int, **options: Unpack[AdditiveOptions]) -> None:
        super().__init__(query_size, **options)

    def build_projections(self, bias: bool, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        both = self.query_size + self.key_size
        self.projection = nn.Linear(both, self.attention_size, bias=False, device=device, dtype=dtype)

    def pairs(self, query: Float[Tensor, "B Q Dq"], key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B Q K D"]:
        return concatenated_pairs(query, key)

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """Return scale · v·tanh(W x), where x is the pair of a query and a key."""
        if is_plain(self.projection):
            return super().scores(query, memory)
        return self.projection(self.pairs(query, memory.key)).tanh() @ self.score_vector()

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        return query_part(query, self.projection.weight)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Da"]:
        """Return W_k k; k itself if the map is not plain."""
        return key_part(key, self.projection.weight) if is_plain(self.projection) else key

    def fused(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, masks: Masks, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None] | None:
        """Return the result of the Triton kernels if the map is plain; see `Additive.fused`."""
        return super().fused(query, memory, masks, need_weights=need_weights) if is_plain(self.projection) else None


class SumConcat(Concat):
    """Luong's concat as a well-known tutorial writes it: score(q, k) = v·tanh(W (q + k)), query and key of the same width.

    Differs from the paper: the paper's W has separate columns for query and key (`Concat`).

    The arguments are those of `Additive`, without a bias.

    Example:
        >>> context, weights = SumConcat(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True
    equal_widths = True

    def build_projections(self, bias: bool, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        self.projection = nn.Linear(self.query_size, self.attention_size, bias=False, device=device, dtype=dtype)

    def pairs(self, query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"]) -> Float[Tensor, "B Q K D"]:
        return query[:, :, None] + key[:, None]
