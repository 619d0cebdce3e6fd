"""Location-sensitive attention: scores depend on the previous weights.

    score_t(q, k) = v · tanh(W_q q + W_k k + U f_t + b),    f_t = F ∗ α_{t−1}

α_{t−1} are the weights of the previous query, and F ∗ α_{t−1} is their convolution with a bank of filters. In code:
`location_scores` with the features `location_features`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.additive import fastest_scores
from regard.attention.arguments import check_size
from regard.attention.base import Memory
from regard.attention.history import HistoryAttention
from regard.errors import ConfigError


def location_features(previous: Float[Tensor, "B K"], convolution: Callable[[Tensor], Tensor]) -> Float[Tensor, "B K C"]:
    """Return f = F ∗ α, a convolution of the previous weights α with C filters F."""
    return convolution(previous[:, None]).transpose(1, 2)


def location_scores(
    query: Float[Tensor, "B Q Da"],
    key: Float[Tensor, "B K Da"],
    features: Float[Tensor, "B K C"],
    feature_projection: Callable[[Tensor], Tensor],
    score_weight: Float[Tensor, " Da"],
) -> Float[Tensor, "B Q K"]:
    """Return s_ij = v · tanh(q_i + k_j + U f_j) for projected queries and keys; U: `feature_projection`, v: `score_weight`."""
    return fastest_scores(query, key + feature_projection(features), score_weight)


class LocationSensitive(HistoryAttention):
    """score_t(q, k) = v·tanh(W_q q + W_k k + U f_t + b), with f_t = F ∗ α_{t−1}, features of the previous weights.

    α_{t−1} are the weights of the previous query. F is a bank of C filters of width R, whose convolution with α_{t−1} lets the
    mechanism learn to move on from the keys to which the previous query attended. This suits alignments that never go back, as
    in speech recognition and speech synthesis.

    Shapes: W_q (Da,Dq), W_k (Da,Dk), U (Da,C), F (C,1,R), v and b (Da). The state holds α_{t−1} (B,K). α_0 is zero, as in open
    implementations of Tacotron 2 (the paper does not define it), so the weights of the first query depend on the query and the
    keys alone. For the filters, a masked key keeps its position and has weight zero, like padding.

    Cost: Q sequential steps of B·K·(R·C + C·Da + Da) multiply-adds; memory B·K·Da.

    Reference: Chorowski et al. 2015, eqs. 8–9 (with w for v, W for W_q and V for W_k).
    Differs from the paper: the smoothing and sharpening of its section 2.3 are normalizers here (`Sigmoid`, `Temperature`), and
    its window is an `attn_mask`.

    Args:
        num_filters: C, number of filters, ≥ 1. The default is that of Tacotron 2; the paper uses 10.
        kernel_size: R, width of the filters, odd, ≥ 1. The default is that of Tacotron 2; the paper uses 201, for speech
            frames.

    The other arguments are those of `Additive`, whose bias b is always there.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `kernel_size` is even, the normalizer is unknown, or scale or
            dropout is out of its range.

    Example:
        >>> attention = LocationSensitive(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    permutation_equivariant: bool = False

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        attention_size: int | None = None,
        num_filters: int = 32,
        kernel_size: int = 31,
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
            bias=True,
            normalizer=normalizer,
            scale=scale,
            dropout=dropout,
            device=device,
            dtype=dtype,
        )
        check_size("LocationSensitive", "num_filters", num_filters)
        check_size("LocationSensitive", "kernel_size", kernel_size)
        if kernel_size % 2 == 0:
            raise ConfigError(
                f"LocationSensitive(kernel_size={kernel_size}): a filter of even width has no middle; use "
                f"{kernel_size - 1} or {kernel_size + 1}"
            )
        self.convolution = nn.Conv1d(
            1, num_filters, kernel_size, padding=kernel_size // 2, bias=False, device=device, dtype=dtype
        )
        self.feature_projection = nn.Linear(num_filters, self.attention_size, bias=False, device=device, dtype=dtype)

    def scores(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, history: Float[Tensor, "B K"] | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Return scale · v·tanh(W_q q + W_k k + U f + b), f = F ∗ α; α is `history`, the previous weights (eqs. 8 and 9)."""
        projected, previous = self.query_projection(query), self.begin(memory) if history is None else history
        if not previous.shape[1]:  # a convolution raises an error for an empty input
            return fastest_scores(projected, memory.key, self.score_vector())
        features = location_features(previous.to(memory.key.dtype), self.convolution)
        return location_scores(projected, memory.key, features, self.feature_projection, self.score_vector())

    def update(self, history: Float[Tensor, "B K"], weights: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the new weights, which replace the previous ones."""
        return weights
