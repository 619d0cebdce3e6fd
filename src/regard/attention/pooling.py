"""Attention without a query: a learned average of a sequence, context = Σ_k weight_k h_k, with one of these scores:

    e_k = w·h_k + b                 `AttentionPooling`          in code: `linear_scores`        weights = softmax_k(e)
    e_k = v·tanh(W h_k + b)         `AdditivePooling`                    `tanh_scores`
    e_ik = v_i·tanh(W h_k)          `MultiHeadPooling`, head i           `tanh_head_scores`
    weight_k = 1/K                  `MeanPooling`                        `equal_weights`

`pooling_base` contains their base class, which implements the call, masks and the average.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_size
from regard.attention.normalizers import build_normalizer
from regard.attention.pooling_base import Pooling, exactly


def linear_scores(values: Float[Tensor, "B K D"], projection: Callable[[Tensor], Tensor]) -> Float[Tensor, "B K"]:
    """Return e_k = w·h_k + b, where `projection` is the linear map."""
    return projection(values)[..., 0]


def tanh_scores(projected: Float[Tensor, "B K Da"], score_weight: Float[Tensor, " Da"]) -> Float[Tensor, "B K"]:
    """Return e_k = v·tanh(W h_k + b), from the projected values W h_k + b."""
    return projected.tanh() @ score_weight


def tanh_head_scores(projected: Float[Tensor, "B K Da"], score_weight: Float[Tensor, "H Da"]) -> Float[Tensor, "B H K"]:
    """Return e_ik = v_i·tanh(W h_k) for each head i, from the projected values W h_k."""
    return (projected.tanh() @ score_weight.T).transpose(1, 2)


def equal_weights(values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B K"]:
    """Return 1/K for each of the K existing values, and zero for masked ones."""
    if key_mask is None:
        return values.new_full(values.shape[:2], 1 / max(1, values.shape[1]))
    return key_mask.to(values.dtype) / key_mask.sum(dim=1, keepdim=True).clamp(min=1)


class AttentionPooling(Pooling):
    """e_k = w·h_k + b, weights = softmax_k(e), context = Σ_k weight_k h_k.

    The bias cancels in a softmax, but not in a normalizer such as a sigmoid.

    Reference: Lin et al. 2017 and Yang et al. 2016, who add a tanh layer, as in `AdditivePooling`.

    Args:
        size: D, width of the pooled values, ≥ 1.
        bias: Whether there is a bias b.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `bias` is not a bool, or the normalizer is unknown.

    Example:
        >>> pool = AttentionPooling(256)
        >>> context, weights = pool(torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 256]), torch.Size([2, 9]))
    """

    def __init__(
        self,
        size: int,
        *,
        bias: bool = True,
        normalizer: nn.Module | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size)
        check_flag(type(self).__name__, "bias", bias)
        self.projection = nn.Linear(size, 1, bias=bias, device=device, dtype=dtype)
        self.normalizer = build_normalizer(type(self).__name__, normalizer)

    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        """Return normalizer(w·h + b)."""
        with exactly(values):
            weights: Tensor = self.normalizer(linear_scores(values, self.projection), key_mask)
        return weights


class AdditivePooling(Pooling):
    """e_k = v·tanh(W h_k + b), weights = softmax_k(e), context = Σ_k weight_k h_k.

    Shapes: W (Da,D), b (Da), v (Da).

    Reference: Yang et al. 2016, eqs. 5–7 (v is their context vector u_w); Lin et al. 2017, eq. 5 (without b).

    Args:
        size: D, width of the pooled values, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        bias: Whether there is a bias b.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `bias` is not a bool, or the normalizer is unknown.

    Example:
        >>> pool = AdditivePooling(256)
        >>> context, weights = pool(torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 256]), torch.Size([2, 9]))
    """

    def __init__(
        self,
        size: int,
        *,
        attention_size: int | None = None,
        bias: bool = True,
        normalizer: nn.Module | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size)
        self.attention_size = width = size if attention_size is None else attention_size
        check_size(type(self).__name__, "attention_size", width)
        check_flag(type(self).__name__, "bias", bias)
        self.projection = nn.Linear(size, width, bias=bias, device=device, dtype=dtype)
        self.score_weight = nn.Parameter(torch.empty(width, device=device, dtype=dtype).uniform_(-(width**-0.5), width**-0.5))
        self.normalizer = build_normalizer(type(self).__name__, normalizer)

    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        """Return normalizer(v·tanh(W h + b))."""
        projected = self.projection(values).to(values.dtype)
        with exactly(values):
            weights: Tensor = self.normalizer(tanh_scores(projected, self.score_weight), key_mask)
        return weights


class MultiHeadPooling(Pooling):
    """e_ik = v_i·tanh(W h_k) for each head i, weights = softmax_k(e), context = [Σ_k weight_1k h_k; …; Σ_k weight_Hk h_k].

    The heads (called hops in the paper) share W, and each pools all D features, so the context has width H·D.

    Shapes: W (Da,D), v (H,Da).

    Reference: Lin et al. 2017, eqs. 6–7.
    Differs from the paper: its penalty ‖A Aᵀ − I‖² on similar heads (eq. 8), with the weights A (H,K), is left out.

    Args:
        size: D, width of the pooled values, ≥ 1.
        num_heads: H, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or the normalizer is unknown.

    Example:
        >>> pool = MultiHeadPooling(256, 4)
        >>> context, weights = pool(torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 1024]), torch.Size([2, 4, 9]))
    """

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        attention_size: int | None = None,
        normalizer: nn.Module | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size, num_heads=num_heads)
        self.attention_size = width = size if attention_size is None else attention_size
        check_size(type(self).__name__, "attention_size", width)
        self.projection = nn.Linear(size, width, bias=False, device=device, dtype=dtype)
        start = torch.empty(num_heads, width, device=device, dtype=dtype).uniform_(-(width**-0.5), width**-0.5)
        self.score_weight = nn.Parameter(start)
        self.normalizer = build_normalizer(type(self).__name__, normalizer)

    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        """Return normalizer(v_i·tanh(W h)) for each head."""
        projected = self.projection(values).to(values.dtype)
        with exactly(values):
            mask = None if key_mask is None else key_mask[:, None]
            weights: Tensor = self.normalizer(tanh_head_scores(projected, self.score_weight), mask)
        return weights


class MeanPooling(Pooling):
    """weight_k = 1/K, context = the mean of the K existing values; a baseline for measuring the effect of learned weights.

    Reference: Wiegreffe, Pinter 2019, section 3.1, where it is called uniform attention.

    Args:
        size: D, width of the pooled values, ≥ 1.
        device: Ignored; there are no parameters.
        dtype: Ignored; there are no parameters.

    Raises:
        ConfigError: If the width is not a whole number of 1 or more.

    Example:
        >>> pool = MeanPooling(256)
        >>> context, weights = pool(torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 256]), torch.Size([2, 9]))
    """

    def __init__(self, size: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__(size)

    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        """Return equal weights for all existing values."""
        return equal_weights(values, key_mask)
