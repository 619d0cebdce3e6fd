"""Location-sensitive attention: scores depend on the previous weights.

    score_t(q, k) = v · tanh(W_q q + W_k k + U f_t + b),    f_t = F ∗ α_{t−1}

α_{t−1} are the weights of the previous query, and F ∗ α_{t−1} is their convolution with a bank of filters. In code:
`location_features`.
"""

from collections.abc import Callable
from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_size
from regard.attention.base import Memory
from regard.attention.learned import factory
from regard.attention.ordered.history import HistoryAttention
from regard.attention.scores.additive import AdditiveOptions
from regard.errors import ConfigError


def location_features(previous: Float[Tensor, "B K"], convolution: Callable[[Tensor], Tensor]) -> Float[Tensor, "B K C"]:
    """Return f = F ∗ α, a convolution of the previous weights α with C filters F."""
    return convolution(previous[:, None]).transpose(1, 2)


class LocationSensitive(HistoryAttention):
    """score_t(q, k) = v·tanh(W_q q + W_k k + U f_t + b), with f_t = F ∗ α_{t−1}, features of the previous weights.

    F is a bank of C filters of width R, whose convolution with α_{t−1} lets the mechanism learn to move on from the keys to
    which the previous query attended. This suits alignments that never go back, as in speech recognition and synthesis.

    Shapes: W_q (Da,Dq), W_k (Da,Dk), U (Da,C), F (C,1,R), v and b (Da). The state holds α_{t−1} (B,K). α_0 is zero, as in open
    implementations of Tacotron 2 (the paper does not define it). For the filters, a masked key has weight zero, like padding.

    Reference: Chorowski et al. 2015, eqs. 8–9 (with w for v, W for W_q and V for W_k).
    Differs from the paper: the smoothing and sharpening of its section 2.3 are normalizers here (`Sigmoid`, `Temperature`), and
    its window is an `attn_mask`.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        num_filters: C, number of filters, ≥ 1. The defaults are those of Tacotron 2; the paper uses 10.
        kernel_size: R, width of the filters, odd, ≥ 1; the paper uses 201, for speech frames.
        options: Further arguments of `Additive`, whose bias is always there: key_size, attention_size, normalizer, scale,
            dropout, device and dtype.

    Example:
        >>> context, weights = LocationSensitive(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    permutation_equivariant: bool = False

    def __init__(
        self, query_size: int, *, num_filters: int = 32, kernel_size: int = 31, **options: Unpack[AdditiveOptions]
    ) -> None:
        super().__init__(query_size, bias=True, **options)
        check_size("LocationSensitive", "num_filters", num_filters)
        check_size("LocationSensitive", "kernel_size", kernel_size)
        if kernel_size % 2 == 0:
            raise ConfigError(
                f"LocationSensitive(kernel_size={kernel_size}): a filter of even width has no middle; use "
                f"{kernel_size - 1} or {kernel_size + 1}"
            )
        self.convolution = nn.Conv1d(1, num_filters, kernel_size, padding=kernel_size // 2, bias=False, **factory(options))
        self.feature_projection = nn.Linear(num_filters, self.attention_size, bias=False, **factory(options))

    def extra(self, history: Float[Tensor, "B K"], memory: Memory) -> Float[Tensor, "B K Da"]:
        """Return U f, f = F ∗ α; α is `history`, the previous weights (eqs. 8 and 9)."""
        if not history.shape[1]:  # a convolution raises an error for an empty input
            return torch.zeros_like(memory.key)
        return self.feature_projection(location_features(history.to(memory.key.dtype), self.convolution))

    def update(self, history: Float[Tensor, "B K"], weights: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the new weights, which replace the previous ones."""
        return weights
