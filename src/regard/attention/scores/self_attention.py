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


def scaled_scores(
    query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], scale: float | None = None
) -> Float[Tensor, "B Q K"]:
    """Return q kᵀ / √D, or scale · q kᵀ."""
    return product_scores(query, key, query.shape[-1] ** -0.5 if scale is None else scale)


class SelfAttention(ScaledDot):
    """q = W_q x + b_q, k = W_k x + b_k, v = W_v x + b_v; weights = softmax(q kᵀ / √D), context = weights·v.

    It has one head, three maps D → D with biases, and no output map: context (B,T,D), weights (B,T,T). `attention(x)` attends
    within x; `attention(query, key, value)` attends to other keys, like every mechanism.

    Reference: Vaswani et al. 2017, section 3.2.1. Differs from the paper: the maps have biases, and there is one head without
    an output map. `MultiHead` is the paper's attention.

    Args:
        size: D, width of queries, keys and values, ≥ 1.
        normalizer: Module that computes weights from scores, or its name, such as "sparsemax"; None for a softmax.
        scale: Factor of the scores, > 0; None for 1/√D.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Example:
        >>> context, weights = SelfAttention(256)(torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 9, 256]), torch.Size([2, 9, 9]))
    """

    supports_fused = True

    def __init__(
        self,
        size: int,
        *,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size, normalizer=normalizer, scale=scale, dropout=dropout, device=device, dtype=dtype)

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Build the three maps."""
        size = self.query_size
        self.query_projection = nn.Linear(size, size, device=device, dtype=dtype)
        self.key_projection = nn.Linear(size, size, device=device, dtype=dtype)
        self.value_projection = nn.Linear(size, size, device=device, dtype=dtype)

    def scores(self, query: Float[Tensor, "B Q D"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """Return scale · q kᵀ, by default q kᵀ / √D."""
        return scaled_scores(self.project_query(query), memory.key, self.scale)

    def context_size(self, value_size: int) -> int:
        """Return D, the width of a query."""
        return self.query_size

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Return W_q x + b_q."""
        return self.query_projection(query)

    def project_key(self, key: Float[Tensor, "B K D"]) -> Float[Tensor, "B K D"]:
        """Return W_k x + b_k."""
        return self.key_projection(key)

    def project_value(self, value: Float[Tensor, "B K D"]) -> Float[Tensor, "B K D"]:
        """Return W_v x + b_v; a masked value becomes b_v, and its weight is zero."""
        check_shape("value", value, f"B K {self.key_size}")
        return self.value_projection(value)
