"""Interface of every pooling: `pool(values, key_mask=…, reweight=…)` returns a context of width `output_size`, and weights.

    context = Σ_k weight_k h_k          `average`

The mechanisms are in `pooling`. Under autocast, only the product W h uses autocast's dtype: scores, weights and sums cost
little in comparison, so they are computed in at least float32.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Never, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_constructor, check_size, check_tensor, describe_arguments, refuse_call
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.masks import combine_masks, zero_masked
from regard.shapes import check_shape


class Pooled(NamedTuple):
    """Context and weights of a batch of sequences. If the values have no batch axis, the results have none either."""

    context: Float[Tensor, "*B D"]
    """Σ_k weight_k value_k, (B,D); with several heads, their contexts are concatenated, (B,H·D)."""
    weights: Float[Tensor, "*heads K"]
    """Weights (B,K), or (B,H,K) with heads."""


_ARGUMENTS = ("values", "key_mask", "reweight")
_BY_POSITION = (
    "values is the only positional argument. Give the mask by name: key_mask=… (B, K), in which True means that a value exists"
)


class Pooling(nn.Module, ABC):
    """Base class of every pooling: weights from the values alone, context = Σ_k weight_k value_k.

    Args:
        size: D, width of the pooled values, ≥ 1.
        num_heads: H, ≥ 1; None for one head, whose weights have no head axis.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the names of the arguments before the constructor runs."""
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
        """Return weights (B,K) or (B,H,K), zero for masked values.

        Args:
            values: The values to pool, in which masked values are already set to zero.
            key_mask: True where a value exists; None if all exist.
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
            values: The values h, (B,K,D), or (K,D) for a single sequence; then no argument and no result has an axis B.
            further: Must be empty: masks are given by name.
            key_mask: True where a value exists, False for padding; None if all exist. A row without values gives zeros.
            reweight: Function that gets the weights and a boolean mask that broadcasts to them, and returns the weights to use
                instead.
            others: Must be empty: other names raise an error that shows the correct call.

        Returns:
            Context and weights: `context, weights = pool(values)`.

        Raises:
            ShapeError: If sizes do not match, or the mask is not boolean.
            ArgumentError: If an argument is unknown or is not a tensor.
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
    """Return Σ_k weight_k value_k: (B,D) for weights (B,K), (B,H·D) for weights (B,H,K)."""
    with exactly(values):
        weights = weights.to(values.dtype)
        return (weights if weights.ndim == 3 else weights[:, None]).matmul(values).flatten(1)


def exactly(values: Tensor) -> torch.autocast:
    """Return a context manager that switches autocast off.

    Scores and sums cost little compared with the projection, so they are computed in full precision.
    """
    return torch.autocast(values.device.type, enabled=False)
