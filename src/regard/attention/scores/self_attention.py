"""Self-attention with one head, in its simplest form.

    q = W_q x + b_q,    k = W_k x + b_k,    v = W_v x + b_v,    weights = softmax(q kᵀ / √D),    context = weights·v

In code: `scaled_scores` of the projected queries and keys.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.scores.products import ScaledDot, product_scores
from regard.shapes import check_shape


def scaled_scores(query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], scale: float) -> Float[Tensor, "B Q K"]:
    """Return scale · q kᵀ; the scale is 1/√D by default."""
    return product_scores(query, key, scale)


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

    def scores(self, query: Float[Tensor, "B Q D"], memory: Memory) -> Float[Tensor, "B Q K"]:
        return scaled_scores(self.project_query(query), memory.key, self.scale)

    def context_size(self, value_size: int) -> int:
        """Return D, the width of a query."""
        return self.query_size

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        return self.query_projection(query)

    def build_memory(self, key: Tensor, value: Tensor, key_mask: Tensor | None) -> Memory:
        """Return W_k x + b_k and W_v x + b_v; a masked value becomes b_v, and its weight is zero."""
        check_shape("value", value, f"B K {self.key_size}")
        return Memory(self.key_projection(key), self.value_projection(value), key_mask)
