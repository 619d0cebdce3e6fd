"""Location-sensitive attention: it knows where it looked last.

    score_t(q, k) = v · tanh(W_q q + W_k k + U f_t + b),    f_t = F ∗ α_{t−1}

In code: `location_scores` with the features `location_features`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.additive import additive_scores
from regard.attention.arguments import check_size
from regard.attention.base import Memory
from regard.attention.history import HistoryAttention
from regard.errors import ConfigError


def location_features(previous: Float[Tensor, "B K"], filters: Float[Tensor, "C 1 R"]) -> Float[Tensor, "B K C"]:
    """Return f = F ∗ α: C filters of R taps slide over the previous weights, with zeros beyond both ends."""
    features = nn.functional.conv1d(previous[:, None].to(filters.dtype), filters, padding=filters.shape[2] // 2)
    return features.transpose(1, 2)


def location_scores(
    query: Float[Tensor, "B Q Da"],
    key: Float[Tensor, "B K Da"],
    features: Float[Tensor, "B K C"],
    feature_weight: Float[Tensor, "Da C"],
    score_weight: Float[Tensor, " Da"],
) -> Float[Tensor, "B Q K"]:
    """Return s_ij = v · tanh(q_i + k_j + U f_j), for projected queries and keys."""
    return additive_scores(query, key + nn.functional.linear(features, feature_weight), score_weight)


class LocationSensitive(HistoryAttention):
    """score_t(q, k) = v·tanh(W_q q + W_k k + U f_t + b), with f_t = F ∗ α_{t−1}: features of the weights just before.

    F is a bank of C filters of R taps that slides over the keys, so that the mechanism learns to move on from where it looked
    last: what alignments that never go back (speech to text, text to speech) need.

    Shapes: W_q (Da,Dq), W_k (Da,Dk), U (Da,C), F (C,1,R), v and b (Da). The state holds α_{t−1} (B,K). α_0 is zero, as the
    open implementations of Tacotron 2 have it (the paper does not say): the first query is answered by content alone. A masked
    key keeps its place on the axis along which the filters slide, with weight zero, as the places beyond both ends have.

    Cost: Q steps of B·K·(R·C + C·Da + Da) multiply-adds, one after the other; memory B·K·Da.

    Reference: Chorowski et al. 2015, eqs. 8–9 (w, W, V, U, b there).
    Differs from the paper: the smoothing and the sharpening of its section 2.3 are left to the normalizer (`Sigmoid`,
    `Temperature`), and its window to `attn_mask`.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        num_filters: C, ≥ 1 (Tacotron 2's default; the paper has 10).
        kernel_size: R, odd, ≥ 1 (Tacotron 2's default; the paper has 201, for frames of speech).
        normalizer: Module that makes weights of (scores, mask), or its name: "softmax", "sparsemax", "entmax15" or "sigmoid";
            None for a softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or `kernel_size` is even.

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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size,
            key_size=key_size,
            attention_size=attention_size,
            bias=True,
            normalizer=normalizer,
            device=device,
            dtype=dtype,
        )
        check_size("LocationSensitive", "num_filters", num_filters)
        check_size("LocationSensitive", "kernel_size", kernel_size)
        if kernel_size % 2 == 0:
            raise ConfigError(
                f"LocationSensitive(kernel_size={kernel_size}): an even filter has no middle; take {kernel_size - 1} or "
                f"{kernel_size + 1}"
            )
        self.convolution = nn.Conv1d(
            1, num_filters, kernel_size, padding=kernel_size // 2, bias=False, device=device, dtype=dtype
        )
        self.feature_projection = nn.Linear(num_filters, self.attention_size, bias=False, device=device, dtype=dtype)

    def scores(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, history: Float[Tensor, "B K"] | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Return v·tanh(W_q q + W_k k + U f + b), f = F ∗ α (eqs. 8 and 9)."""
        projected, previous = self.query_projection(query), self.begin(memory) if history is None else history
        if not previous.shape[1]:  # a convolution refuses to slide over nothing
            return additive_scores(projected, memory.key, self.score_weight)
        features = location_features(previous, self.convolution.weight)
        return location_scores(projected, memory.key, features, self.feature_projection.weight, self.score_weight)

    def update(self, history: Float[Tensor, "B K"], weights: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the weights just given take the place of those before."""
        return weights
