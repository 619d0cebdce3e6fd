"""From scores to weights: modules that any mechanism takes as its `normalizer`."""

from typing import ClassVar

from torch import Tensor, nn

from regard.attention.masks import masked_softmax


class Softmax(nn.Module):
    """w_k = exp(s_k) / Σ_j exp(s_j) over the positions that the mask allows; zeros where it allows none."""

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero where there is nothing to attend to)."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weights of the scores' shape, (…,K); `mask` is boolean and broadcasts to them."""
        return masked_softmax(scores, mask)
