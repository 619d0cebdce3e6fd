"""A score that is linear in the query, in the key, and in the product of both.

    score(q, k) = w·[q; k; q∘k] = w_q·q + w_k·k + (w_p∘q)·k

In code: the product of `query_columns` and `key_columns`, which is the sum of all three terms.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.scores.products import ProductBase


def query_columns(query: Float[Tensor, "B Q D"], weight: Float[Tensor, "three D"]) -> Float[Tensor, "B Q D2"]:
    """Return [w_p∘q; 1; w_q·q], whose product with [k; w_k·k; 1] is the score."""
    of_query, _, of_product = weight
    return torch.cat([of_product * query, torch.ones_like(query[..., :1]), (query @ of_query)[..., None]], -1)


def key_columns(key: Float[Tensor, "B K D"], weight: Float[Tensor, "three D"]) -> Float[Tensor, "B K D2"]:
    """Return [k; w_k·k; 1], whose product with [w_p∘q; 1; w_q·q] is the score."""
    return torch.cat([key, (key @ weight[1])[..., None], torch.ones_like(key[..., :1])], -1)


class Trilinear(ProductBase):
    """score(q, k) = w_q·q + w_k·k + (w_p∘q)·k, query and key of the same width D; w (3,D).

    It is `General` with a diagonal matrix, plus one term for the query and one for the key. In a softmax, w_q·q cancels,
    because it is the same for all keys.

    Reference: Seo et al. 2017, "Bidirectional attention flow for machine comprehension", section 2, layer 4 (α there is the
    score).

    The arguments are those of `ScoredAttention`.

    Example:
        >>> context, weights = Trilinear(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True
    equal_widths = True

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        size = self.query_size
        self.weight = nn.Parameter(torch.empty(3, size, device=device, dtype=dtype).uniform_(-(size**-0.5), size**-0.5))

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q D2"]:
        return query_columns(query, self.weight)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K D2"]:
        return key_columns(key, self.weight)
