"""From scores to weights: modules that any mechanism takes as its `normalizer`.

Mechanisms take an instance, or the name of one: "softmax", "sparsemax", "entmax15", "sigmoid".

All are called `normalizer(scores, mask)` with scores (…,K) and a boolean mask that broadcasts to them, give weights of the
scores' shape and type (half types are computed in float32), and keep what the contract promises of masks: zeros where the mask
is False and in rows where it allows nothing, and neither result nor gradient see what stands behind it.
"""

import inspect
import math
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_instance, check_number
from regard.attention.masks import masked_softmax
from regard.errors import ConfigError, nearest

Normalizer = nn.Module
"""A module that is called with scores (…,K) and a mask, and returns weights of their shape and type."""


class Softmax(nn.Module):
    """w_k = exp(s_k) / Σ_j exp(s_j) over the positions that the mask allows; zeros where it allows none.

    Example:
        >>> Softmax()(torch.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero where there is nothing to attend to)."""

    supports_fused: ClassVar[bool] = True
    """Whether kernels that compute a softmax of their own may take its place; False for a subclass with another formula."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Take the fused kernels from a class with a formula of its own."""
        super().__init_subclass__(**options)
        if "forward" in cls.__dict__ and "supports_fused" not in cls.__dict__:
            cls.supports_fused = False

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        return masked_softmax(scores, mask)


class Sparsemax(nn.Module):
    """w = argmin_p ‖p − s‖² over the simplex: w_k = max(s_k − τ, 0), with the τ that makes them sum to one.

    Sparse: scores of one or more below the highest always get exactly zero. Cost: a sort of each row.

    Reference: Martins, Astudillo 2016, eqs. 2–3 and algorithm 1.

    Example:
        >>> Sparsemax()(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero where there is nothing to attend to)."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        if not scores.shape[-1]:
            return scores
        z = _below_the_highest(scores, mask)
        with torch.no_grad():
            ordered, rank = _ordered(z)
            total = ordered.cumsum(-1)
            size = (1 + rank * ordered > total).sum(-1, keepdim=True).clamp(min=1)
            support = _above(z, (total.gather(-1, size - 1) - 1) / size)
        # The threshold once more, from its support: τ = (Σ_{support} z − 1) / |support| carries the gradient.
        threshold = (z.where(support, 0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
        return _finished((z - threshold).where(support, 0).clamp(min=0), scores, mask)


class Entmax15(nn.Module):
    """1.5-entmax: w_k = max(s_k/2 − τ, 0)², with the τ that makes them sum to one; between softmax and `Sparsemax`.

    Sparse: scores of two or more below the highest always get exactly zero. Cost: a sort of each row.

    Reference: Peters, Niculae, Martins 2019, algorithm 2 (exact, by sorting).

    Example:
        >>> Entmax15()(torch.tensor([1.0, 1.0, -3.0]))
        tensor([0.5000, 0.5000, 0.0000])
    """

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero where there is nothing to attend to)."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        if not scores.shape[-1]:
            return scores
        z = _below_the_highest(scores, mask, scale=0.5)
        with torch.no_grad():
            ordered, rank = _ordered(z)
            mean = ordered.cumsum(-1) / rank
            spread = (ordered.square().cumsum(-1) / rank - mean.square()) * rank
            thresholds = mean - ((1 - spread) / rank).clamp(min=0).sqrt()
            size = (thresholds <= ordered).sum(-1, keepdim=True).clamp(min=1)
            support = _above(z, thresholds.gather(-1, size - 1))
        # The threshold once more, from its support, to carry the gradient: Σ_{support} (z − τ)² = 1.
        count = support.sum(-1, keepdim=True)
        mean = z.where(support, 0).sum(-1, keepdim=True) / count
        spread = (z - mean).where(support, 0).square().sum(-1, keepdim=True)
        threshold = mean - ((1 - spread) / count).clamp(min=torch.finfo(z.dtype).tiny).sqrt()
        return _finished((z - threshold).where(support, 0).clamp(min=0).square(), scores, mask)


class Sigmoid(nn.Module):
    """w_k = 1 / (1 + exp(−s_k)): each key for itself. **The weights of a row do not sum to one.**

    Reference: Ramapuram et al. 2024, "Theory, analysis, and best practices for sigmoid self-attention".
    Differs from the paper: no bias b = −ln K on the scores.

    Example:
        >>> Sigmoid()(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    normalized: ClassVar[bool] = False
    """Each weight lies between zero and one, and their sum is anything."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        if mask is None:
            return scores.sigmoid()
        return scores.where(mask, 0).sigmoid().where(mask, 0)


class Temperature(nn.Module):
    """Another normalizer on scores / T: T < 1 sharpens the weights, T > 1 flattens them.

    Reference: Hinton, Vinyals, Dean 2015, eq. 1.

    Args:
        normalizer: Module that makes weights of (scores / T, mask), or its name; None for `Softmax`.
        temperature: T, finite and > 0.

    Raises:
        ConfigError: If the temperature is not finite and above zero.

    Example:
        >>> Temperature(temperature=0.5)(torch.tensor([1.0, 2.0]))
        tensor([0.1192, 0.8808])
    """

    def __init__(self, normalizer: nn.Module | str | None = None, *, temperature: float) -> None:
        super().__init__()
        check_number("Temperature", "temperature", temperature)
        if not 0 < temperature < math.inf:
            raise ConfigError(
                f"Temperature(temperature={temperature}): expected a finite number above 0; below 1 sharpens the weights, "
                "above 1 flattens them"
            )
        self.normalizer = build_normalizer("Temperature", normalizer)
        self.temperature = temperature
        self.normalized = bool(getattr(self.normalizer, "normalized", False))

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        # In float32, because 60,000 / 0.5 is beyond float16.
        return self.normalizer(_precise(scores) / self.temperature, mask).to(scores.dtype)

    def extra_repr(self) -> str:
        """Return the temperature, for `print`."""
        return f"temperature={self.temperature}"


def is_softmax(normalizer: nn.Module) -> bool:
    """Return whether kernels that compute a softmax of their own may take a normalizer's place."""
    return bool(getattr(normalizer, "supports_fused", False))


_NAMES: dict[str, type[nn.Module]] = {"softmax": Softmax, "sparsemax": Sparsemax, "entmax15": Entmax15, "sigmoid": Sigmoid}


def build_normalizer(called: str, normalizer: nn.Module | str | None) -> nn.Module:
    """Return a mechanism's normalizer: a softmax by default, one by its name, or the module that was given.

    Args:
        called: Name of the mechanism, for messages.
        normalizer: A module called with (scores, mask); "softmax", "sparsemax", "entmax15" or "sigmoid"; None for a softmax.

    Raises:
        ConfigError: If the name is unknown, or the object is no such module.

    Example:
        >>> build_normalizer("Additive", "sparsemax")
        Sparsemax()
    """
    if normalizer is None:
        return Softmax()
    if isinstance(normalizer, str):
        if normalizer not in _NAMES:
            names = ", ".join(f"'{name}'" for name in _NAMES)
            raise ConfigError(
                f"{called}(normalizer={normalizer!r}): expected {names}, or a module with forward(scores, mask)"
                f"{nearest(normalizer, _NAMES)}"
            )
        return _NAMES[normalizer]()
    check_instance(called, "normalizer", normalizer, nn.Module, "Sparsemax()")
    try:
        inspect.signature(normalizer.forward).bind(None, None)
    except TypeError:
        kind = type(normalizer).__name__
        name = kind.lower()
        remedy = f"give normalizer={name!r}" if name in _NAMES else "write a module with forward(scores, mask)"
        raise ConfigError(
            f"{called}(normalizer={kind}): a normalizer is called with (scores, mask), but this one takes no mask; {remedy}"
        ) from None
    return normalizer


def _precise(scores: Tensor) -> Tensor:
    """float64 as it is, anything else in float32."""
    return scores if scores.dtype == torch.float64 else scores.float()


def _below_the_highest(scores: Tensor, mask: Tensor | None, *, scale: float = 1.0) -> Tensor:
    """scale · (s − max s), at most 0. What is 2 or more below is put at −2: it is out of every support (which ends at −1), and
    so are the masked; bounded numbers keep the sums exact whatever the scores."""
    z = _precise(scores)
    if mask is None:
        return (scale * (z - z.detach().amax(-1, keepdim=True))).clamp(min=-2)
    z = z.where(mask, -torch.inf)
    top = z.detach().amax(-1, keepdim=True).where(mask.any(-1, keepdim=True), 0)
    return (scale * (z - top)).clamp(min=-2)


def _ordered(z: Tensor) -> tuple[Tensor, Tensor]:
    """The row from the highest to the lowest, and 1, 2, …, K."""
    return z.sort(-1, descending=True).values, torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)


def _above(z: Tensor, threshold: Tensor) -> Tensor:
    """The support. A row with a NaN has a threshold of NaN and no order: all of it counts, so that its weights are NaN, as a
    softmax has it, and no index of no place is looked up."""
    return ~(z <= threshold)


def _finished(weights: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    return (weights if mask is None else weights.where(mask, 0)).to(scores.dtype)
