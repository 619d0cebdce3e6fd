"""Attention without a query: a learned average of a sequence.

Every pooling is called alike, `pool(values, key_mask=…, reweight=…)`, and gives a context of `pool.output_size` and weights.
They differ in where the scores come from:

    AttentionPooling    w·h_k + b
    AdditivePooling     v·tanh(W h_k + b)
    MultiHeadPooling    v_i·tanh(W h_k), for each head i
    MeanPooling         none: all count the same

Under autocast the product W h alone is in its dtype: scores, weights and sums are small next to it, and stay exact.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.capabilities import Reweight, reweighted
from regard.attention.masks import combine_masks, zero_masked
from regard.attention.normalizers import Softmax
from regard.attention.scored import check_size
from regard.shapes import check_shape


class Pooled(NamedTuple):
    """What pooling gives."""

    context: Tensor
    """Σ_k weight_k value_k, (B,D); those of several heads side by side, (B,H·D)."""
    weights: Tensor
    """(B,K), with heads (B,H,K)."""


class Pooling(nn.Module, ABC):
    """weights from the values alone, context = Σ_k weight_k value_k."""

    def __init__(self, size: int, *, num_heads: int | None = None) -> None:
        """Args:
        size: D, width of what is pooled, ≥ 1.
        num_heads: H, ≥ 1; None for one head, whose weights have no axis for it.
        """
        super().__init__()
        check_size(type(self).__name__, "size", size)
        self.size = size
        self.output_size = size if num_heads is None else num_heads * size
        """Width of the context."""

    @abstractmethod
    def weigh(self, values: Tensor, key_mask: Tensor | None) -> Tensor:
        """Weights (B,K) or (B,H,K) of values (B,K,D) that are zero behind the mask (B,K); zeros there and in empty rows."""

    def forward(
        self,
        values: Float[Tensor, "B K D"],
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
        reweight: Reweight | None = None,
    ) -> Pooled:
        """Pool each sequence of the batch.

        Args:
            values: h.
            key_mask: Boolean, True where there is something; a row without anything gives zeros.
            reweight: From the weights, and the mask in a shape that broadcasts to them, to the weights used in their place.

        Raises:
            ShapeError: If an axis does not fit, or the mask is not boolean.
        """
        sizes = check_shape("values", values, f"B K {self.size}")
        combine_masks(key_mask, None, batch=sizes["B"], queries=1, keys=sizes["K"])
        values = zero_masked(values, key_mask)
        if torch.is_autocast_enabled(values.device.type):
            values = values.to(torch.promote_types(values.dtype, torch.float32))
        weights = self.weigh(values, key_mask)
        mask = key_mask if key_mask is None or weights.ndim == 2 else key_mask[:, None]
        weights = reweighted(weights, mask, reweight)
        return Pooled(average(weights, values), weights)


def average(weights: Tensor, values: Float[Tensor, "B K D"]) -> Tensor:
    """Σ_k weight_k value_k: (B,D) of weights (B,K), (B,H·D) of weights (B,H,K)."""
    with _exact(values):
        weights = weights.to(values.dtype)
        return (weights if weights.ndim == 3 else weights[:, None]).matmul(values).flatten(1)


def _exact(values: Tensor) -> torch.autocast:
    return torch.autocast(values.device.type, enabled=False)


class AttentionPooling(Pooling):
    """e_k = w·h_k + b, weights = softmax_k(e), context = Σ_k weight_k h_k.

    The bias cancels in the softmax; it counts with a normalizer such as a sigmoid.

    Reference: Lin et al. 2017 and Yang et al. 2016 have it with a tanh layer between, as `AdditivePooling` does.
    """

    def __init__(self, size: int, *, bias: bool = True, normalizer: nn.Module | None = None) -> None:
        """Args:
        size: D, width of what is pooled, ≥ 1.
        bias: Whether there is a b.
        normalizer: From scores to weights; None for `Softmax`.
        """
        super().__init__(size)
        self.projection = nn.Linear(size, 1, bias=bias)
        self.normalizer = Softmax() if normalizer is None else normalizer

    def weigh(self, values: Tensor, key_mask: Tensor | None) -> Tensor:
        """normalizer(w·h + b)."""
        with _exact(values):
            weights: Tensor = self.normalizer(self.projection(values)[..., 0], key_mask)
        return weights


class AdditivePooling(Pooling):
    """e_k = v·tanh(W h_k + b), weights = softmax_k(e), context = Σ_k weight_k h_k.

    Shapes: W (Da,D), b (Da), v (Da).

    Reference: Yang et al. 2016, eqs. 5–7 (v is their context vector u_w); Lin et al. 2017, eq. 5, has no b.
    """

    def __init__(
        self, size: int, *, attention_size: int | None = None, bias: bool = True, normalizer: nn.Module | None = None
    ) -> None:
        """Args:
        size: D, width of what is pooled, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        bias: Whether there is a b.
        normalizer: From scores to weights; None for `Softmax`.
        """
        super().__init__(size)
        width = size if attention_size is None else attention_size
        check_size(type(self).__name__, "attention_size", width)
        self.projection = nn.Linear(size, width, bias=bias)
        self.score_weight = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))
        self.normalizer = Softmax() if normalizer is None else normalizer

    def weigh(self, values: Tensor, key_mask: Tensor | None) -> Tensor:
        """normalizer(v·tanh(W h + b))."""
        projected = self.projection(values).to(values.dtype)
        with _exact(values):
            weights: Tensor = self.normalizer(projected.tanh() @ self.score_weight, key_mask)
        return weights


class MultiHeadPooling(Pooling):
    """e_ik = v_i·tanh(W h_k) for each head i, weights = softmax_k(e), context = [Σ_k weight_1k h_k; …; Σ_k weight_Hk h_k].

    The heads ("hops") share W and pool the whole of the values, so the context is H·D wide.

    Shapes: W (Da,D), v (H,Da).

    Reference: Lin et al. 2017, eqs. 6–7.
    Differs from the paper: its penalty ‖A Aᵀ − I‖² on heads that look alike (eq. 8) is not part of it.
    """

    def __init__(
        self, size: int, *, num_heads: int, attention_size: int | None = None, normalizer: nn.Module | None = None
    ) -> None:
        """Args:
        size: D, width of what is pooled, ≥ 1.
        num_heads: H, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        normalizer: From scores to weights; None for `Softmax`.
        """
        super().__init__(size, num_heads=num_heads)
        width = size if attention_size is None else attention_size
        check_size(type(self).__name__, "num_heads", num_heads)
        check_size(type(self).__name__, "attention_size", width)
        self.projection = nn.Linear(size, width, bias=False)
        self.score_weight = nn.Parameter(torch.empty(num_heads, width).uniform_(-(width**-0.5), width**-0.5))
        self.normalizer = Softmax() if normalizer is None else normalizer

    def weigh(self, values: Tensor, key_mask: Tensor | None) -> Tensor:
        """normalizer(v_i·tanh(W h)) for each head."""
        projected = self.projection(values).to(values.dtype)
        with _exact(values):
            scores = (projected.tanh() @ self.score_weight.T).transpose(1, 2)
            weights: Tensor = self.normalizer(scores, None if key_mask is None else key_mask[:, None])
        return weights


class MeanPooling(Pooling):
    """weight_k = 1/K, context = the mean of what there is: the control that shows what attention adds.

    Reference: Wiegreffe, Pinter 2019, section 3.1, call it uniform attention.
    """

    def __init__(self, size: int) -> None:
        """Args:
        size: D, width of what is pooled, ≥ 1.
        """
        super().__init__(size)

    def weigh(self, values: Tensor, key_mask: Tensor | None) -> Tensor:
        """The same for everything that is there."""
        if key_mask is None:
            return values.new_full(values.shape[:2], 1 / max(1, values.shape[1]))
        return key_mask.to(values.dtype) / key_mask.sum(dim=1, keepdim=True).clamp(min=1)
