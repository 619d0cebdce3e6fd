"""Additive attention whose scores have a learned scale; the scorer of the monotonic mechanisms.

    score(q, k) = g v/‖v‖ · tanh(W_q q + W_k k + b)

In code: `additive.plain_additive_scores` with the score weight `scaled_direction(v, g)`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.additive import Additive
from regard.attention.capabilities import LinearScore, capability


def scaled_direction(vector: Float[Tensor, " Da"], gain: Float[Tensor, ""]) -> Float[Tensor, " Da"]:
    """Return g v/‖v‖, the direction of v with length g."""
    return gain * nn.functional.normalize(vector, dim=0)


class WeightNormAdditive(Additive):
    """Additive attention whose scores have a learned scale g: score(q, k) = g v/‖v‖ · tanh(W_q q + W_k k + b).

    Shapes: W_q (Da,Dq), W_k (Da,Dk), b and v (Da), g a scalar, 1/√Da at first.

    Reference: Raffel et al. 2017, appendix G; Chiu & Raffel 2018, eq. 13 (with an offset r, which belongs to `SoftMonotonic`
    here: a softmax would cancel it).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        normalizer: Module that makes weights of (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or the normalizer is unknown.

    Example:
        >>> attention = WeightNormAdditive(256)
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
            bias=True,
            normalizer=normalizer,
            scale=scale,
            dropout=dropout,
            device=device,
            dtype=dtype,
        )
        self.gain = nn.Parameter(torch.tensor(self.attention_size**-0.5, device=device, dtype=dtype))

    @capability
    def linear_score(self) -> LinearScore | None:
        """Return W_q and g v/‖v‖; see `Attention.linear_score`."""
        return self._linear_score(self.query_projection.weight)

    def score_vector(self) -> Float[Tensor, " Da"]:
        """Return g v/‖v‖."""
        return scaled_direction(self.score_weight, self.gain if self.scale == 1 else self.scale * self.gain)
