"""Cosine attention: scores depend on the angle between query and key, not on their lengths.

    score(q, k) = g q·k / (‖q‖ ‖k‖)          weights = softmax_k score(q, k),    context = Σ_k weight_k value_k

g is a number, fixed or learned. In code: g times the product of `unit_vectors(query)` and `unit_vectors(key)`.
"""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_number
from regard.attention.learned import build_number, factory
from regard.attention.precision import at_least_float32
from regard.attention.scores.base import UnscaledOptions
from regard.attention.scores.products import ProductBase


def unit_vectors(x: Float[Tensor, "*any D"]) -> Float[Tensor, "*any D"]:
    """Return x / ‖x‖, and zero for a vector of zeros."""
    wide = at_least_float32(x)
    largest = wide.detach().abs().amax(-1, keepdim=True)
    scaled = wide / largest.where(largest > 0, 1)  # so that no square overflows
    # The norm is now 0, which `eps` replaces, or at least 1. A small `eps` would give zeros a huge gradient.
    return nn.functional.normalize(scaled, dim=-1, eps=0.5).to(x.dtype)


class Cosine(ProductBase):
    """score(q, k) = g q·k / (‖q‖ ‖k‖), for queries and keys of the same width; g is a number, learned by default.

    Scores lie between −g and g, so g limits how sharp the softmax can become.

    Reference: Graves, Wayne, Danihelka 2014, "Neural Turing machines", eqs. 5 and 6 (β is g); Liu et al. 2022, "Swin
    Transformer V2", eq. 2 (1/τ is g, learned).

    Args:
        query_size: D, width of the queries and keys, ≥ 1.
        scale: Initial value of g, finite and > 0.
        learned: Whether g is trained.
        options: Further arguments of `ScoredAttention`: key_size, normalizer, dropout, device and dtype.

    Example:
        >>> context, weights = Cosine(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True
    equal_widths = True

    def __init__(
        self, query_size: int, *, scale: float = 10.0, learned: bool = True, **options: Unpack[UnscaledOptions]
    ) -> None:
        super().__init__(query_size, **options)
        check_number("Cosine", "scale", scale, above=0)
        self.learned = check_flag("Cosine", "learned", learned)
        self.gain = build_number(scale, learned=learned, **factory(options))

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Dq"]:
        return self.gain * unit_vectors(query)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Dk"]:
        return unit_vectors(key)
