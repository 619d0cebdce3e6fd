"""Attention without a query: a learned average of a sequence."""

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.masks import combine_masks, zero_masked
from regard.attention.normalizers import Softmax
from regard.attention.scored import check_size
from regard.shapes import check_shape


class Pooled(NamedTuple):
    """What pooling gives."""

    context: Tensor
    """Σ_k weight_k value_k, (B,D)."""
    weights: Tensor
    """(B,K)."""


class AttentionPooling(nn.Module):
    """e_k = w·h_k + b, weights = softmax_k(e), context = Σ_k weight_k h_k.

    The bias cancels in the softmax; it counts with a normalizer such as a sigmoid.

    Reference: Lin et al. 2017 and Yang et al. 2016 have it with a tanh layer between.
    """

    def __init__(self, size: int, *, bias: bool = True, normalizer: nn.Module | None = None) -> None:
        """Args:
        size: D, width of what is pooled, ≥ 1.
        bias: Whether there is a b.
        normalizer: From scores to weights; None for `Softmax`.
        """
        super().__init__()
        check_size(type(self).__name__, "size", size)
        self.size = size
        self.projection = nn.Linear(size, 1, bias=bias)
        self.normalizer = Softmax() if normalizer is None else normalizer

    def forward(self, values: Float[Tensor, "B K D"], *, key_mask: Bool[Tensor, "B K"] | None = None) -> Pooled:
        """Pool each sequence of the batch.

        Args:
            values: h.
            key_mask: Boolean, True where there is something; a row without anything gives zeros.

        Raises:
            ShapeError: If an axis does not fit, or the mask is not boolean.
        """
        check_shape("values", values, f"B K {self.size}")
        mask = combine_masks(key_mask, None, batch=values.shape[0], queries=1, keys=values.shape[1])
        values = zero_masked(values, key_mask)
        weights = self.normalizer(self.projection(values).transpose(1, 2), mask)
        return Pooled((weights.to(values.dtype) @ values)[:, 0], weights[:, 0])
