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
from typing import Any, NamedTuple, Never, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_constructor, check_size, check_tensor, describe_arguments, refuse_call
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.masks import combine_masks, zero_masked
from regard.attention.normalizers import build_normalizer
from regard.shapes import check_shape


class Pooled(NamedTuple):
    """Context and weights of a batch of sequences. If the values have no batch axis, these have none either."""

    context: Float[Tensor, "*B D"]
    """Σ_k weight_k value_k, (B,D); those of several heads side by side, (B,H·D)."""
    weights: Float[Tensor, "*heads K"]
    """(B,K), with heads (B,H,K)."""


_ARGUMENTS = ("values", "key_mask", "reweight")
_BY_POSITION = "values is the only one. Give the mask by name: key_mask=… (B, K), in which True means that a value exists"


class Pooling(nn.Module, ABC):
    """Base of every pooling: weights from the values alone, context = Σ_k weight_k value_k.

    Args:
        size: D, width of what is pooled, ≥ 1.
        num_heads: H, ≥ 1; None for one head, whose weights have no axis for it.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the names of the arguments before the constructor of any pooling runs."""
        check_constructor(cls, args, kwargs)
        return super().__new__(cls)

    def __init__(self, size: int, *, num_heads: int | None = None) -> None:
        super().__init__()
        check_size(type(self).__name__, "size", size)
        if num_heads is not None:
            check_size(type(self).__name__, "num_heads", num_heads)
        self.size, self.num_heads = size, num_heads
        self.output_size = size if num_heads is None else num_heads * size
        """Width of the context."""

    @abstractmethod
    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        """Return weights (B,K) or (B,H,K) of values that are zero behind the mask; zeros there and in empty rows.

        Args:
            values: What is pooled.
            key_mask: True where a value exists; None for everywhere.
        """

    def forward(
        self,
        values: Float[Tensor, "*B K D"],
        *further: Never,
        key_mask: Bool[Tensor, "*B K"] | None = None,
        reweight: Reweight | None = None,
        **others: Never,
    ) -> Pooled:
        """Pool each sequence of the batch.

        Args:
            values: h, (B,K,D), or (K,D) of a single sequence, for which no argument and no result has an axis B.
            further: Nothing; masks are given by name.
            key_mask: True where a value exists (padding: False); None for everywhere. A row without any gives zeros.
            reweight: From the weights, and the mask in a shape that broadcasts to them, to the weights used in their place.
            others: Nothing; other names are refused, with the right call.

        Returns:
            Context and weights: `context, weights = pool(values)`.

        Raises:
            ShapeError: If an axis does not fit, or the mask is not boolean.
            ArgumentError: If an argument has another name, or is no tensor.
        """
        called = type(self).__name__
        if further or others:
            refuse_call(called, further, others, _ARGUMENTS, _BY_POSITION)
        check_tensor(called, "values", values)
        if values.ndim == 2:
            pooled = self._pool(values[None], None if key_mask is None else key_mask[None], reweight)
            return Pooled(pooled.context[0], pooled.weights[0])
        return self._pool(values, key_mask, reweight)

    def extra_repr(self) -> str:
        """Return sizes and options, for `print`."""
        return describe_arguments(self)

    def _pool(self, values: Tensor, key_mask: Tensor | None, reweight: Reweight | None) -> Pooled:
        sizes = check_shape("values", values, f"B K {self.size}")
        combine_masks(key_mask, None, batch=sizes["B"], queries=1, keys=sizes["K"])
        values = zero_masked(values, key_mask)
        if torch.is_autocast_enabled(values.device.type):
            values = values.to(torch.promote_types(values.dtype, torch.float32))
        weights = self.weigh(values, key_mask)
        mask = key_mask if key_mask is None or weights.ndim == 2 else key_mask[:, None]
        weights = reweighted(weights, mask, reweight)
        return Pooled(average(weights, values), weights)


def average(weights: Float[Tensor, "B *H K"], values: Float[Tensor, "B K D"]) -> Float[Tensor, "B HD"]:
    """Return Σ_k weight_k value_k: (B,D) of weights (B,K), (B,H·D) of weights (B,H,K)."""
    with _exact(values):
        weights = weights.to(values.dtype)
        return (weights if weights.ndim == 3 else weights[:, None]).matmul(values).flatten(1)


def _exact(values: Tensor) -> torch.autocast:
    return torch.autocast(values.device.type, enabled=False)


class AttentionPooling(Pooling):
    """e_k = w·h_k + b, weights = softmax_k(e), context = Σ_k weight_k h_k.

    The bias cancels in the softmax; it counts with a normalizer such as a sigmoid.

    Reference: Lin et al. 2017 and Yang et al. 2016 have it with a tanh layer between, as `AdditivePooling` does.

    Args:
        size: D, width of what is pooled, ≥ 1.
        bias: Whether there is a b.
        normalizer: Module that makes weights of (scores, mask), or its name: "softmax", "sparsemax", "entmax15" or "sigmoid";
            None for a softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or the normalizer is unknown.

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
        self.projection = nn.Linear(size, 1, bias=bias, device=device, dtype=dtype)
        self.normalizer = build_normalizer(type(self).__name__, normalizer)

    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        """normalizer(w·h + b)."""
        with _exact(values):
            weights: Tensor = self.normalizer(self.projection(values)[..., 0], key_mask)
        return weights


class AdditivePooling(Pooling):
    """e_k = v·tanh(W h_k + b), weights = softmax_k(e), context = Σ_k weight_k h_k.

    Shapes: W (Da,D), b (Da), v (Da).

    Reference: Yang et al. 2016, eqs. 5–7 (v is their context vector u_w); Lin et al. 2017, eq. 5, has no b.

    Args:
        size: D, width of what is pooled, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        bias: Whether there is a b.
        normalizer: Module that makes weights of (scores, mask), or its name: "softmax", "sparsemax", "entmax15" or "sigmoid";
            None for a softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or the normalizer is unknown.

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
        self.projection = nn.Linear(size, width, bias=bias, device=device, dtype=dtype)
        self.score_weight = nn.Parameter(torch.empty(width, device=device, dtype=dtype).uniform_(-(width**-0.5), width**-0.5))
        self.normalizer = build_normalizer(type(self).__name__, normalizer)

    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
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

    Args:
        size: D, width of what is pooled, ≥ 1.
        num_heads: H, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        normalizer: Module that makes weights of (scores, mask), or its name: "softmax", "sparsemax", "entmax15" or "sigmoid";
            None for a softmax.
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
        """normalizer(v_i·tanh(W h)) for each head."""
        projected = self.projection(values).to(values.dtype)
        with _exact(values):
            scores = (projected.tanh() @ self.score_weight.T).transpose(1, 2)
            weights: Tensor = self.normalizer(scores, None if key_mask is None else key_mask[:, None])
        return weights


class MeanPooling(Pooling):
    """weight_k = 1/K, context = the mean of what there is: the control that shows what attention adds.

    Reference: Wiegreffe, Pinter 2019, section 3.1, call it uniform attention.

    Args:
        size: D, width of what is pooled, ≥ 1.
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
        """The same for everything that is there."""
        if key_mask is None:
            return values.new_full(values.shape[:2], 1 / max(1, values.shape[1]))
        return key_mask.to(values.dtype) / key_mask.sum(dim=1, keepdim=True).clamp(min=1)
