"""Normalizers turn scores into weights; most mechanisms have an argument `normalizer`, a module or a name.

    w_k = exp(s_k) / Σ_j exp(s_j)        `Softmax`, "softmax"          in code: `masked_softmax`
    w_k = 1 / (1 + exp(−s_k))            `Sigmoid`, "sigmoid"                   `masked_sigmoid`
    w = normalizer(s / T)                `Temperature`                          its `forward`
    w = normalizer(c tanh(s / c))        `SoftCap`                              its `forward`

Others are in `sparse`, `entmax`, `sink` and `stick_breaking`. `Normalizer` describes what all normalizers have in common.
"""

import inspect
import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_instance, check_number
from regard.attention.entmax import Entmax
from regard.attention.kernels.softmax import softmax
from regard.attention.masks import check_boolean
from regard.attention.sink import SoftmaxSink, Softpick
from regard.attention.sparse import Entmax15, Sparsemax, at_least_float32
from regard.attention.stick_breaking import StickBreaking
from regard.errors import ConfigError, nearest


def masked_sigmoid(scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
    """Return 1 / (1 + exp(−s_k)) where the mask allows k, else 0."""
    return scores.sigmoid() if mask is None else scores.where(mask, 0).sigmoid().where(mask, 0)


def masked_softmax(scores: Float[Tensor, "*batch K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*batch K"]:
    """Return the softmax over the positions of the last axis at which the mask is True.

    w_k = exp(s_k) / Σ_{j allowed} exp(s_j) where k is allowed, else 0. A row masked as a whole has zero weights and gradients.
    Masked scores, even infinite ones and NaN, affect neither result nor gradient.

    Args:
        scores: Any real numbers, in any floating type.
        mask: Boolean, broadcasting to the scores; None allows everything.

    Returns:
        The weights, of the shape and type of the scores.

    Raises:
        ShapeError: If the mask is not boolean.

    Example:
        >>> masked_softmax(torch.zeros(4), torch.tensor([True, True, False, False]))
        tensor([0.5000, 0.5000, 0.0000, 0.0000])
    """
    if mask is None:
        return softmax(scores)
    check_boolean("mask", mask, "broadcasting to the scores")
    # A row without allowed positions gets equal scores, because −∞ everywhere would give 0/0.
    fill = scores.new_zeros(()).where(~mask.any(-1, keepdim=True), -torch.inf).to(scores.dtype)
    return softmax(torch.where(mask, scores, fill)).masked_fill(~mask, 0)


Normalizer = nn.Module
"""A module that is called with scores (…,K) and a boolean mask that broadcasts to them, or None for no mask.

It returns weights of the same shape and type (half types are computed in float32). Weights are zero where the mask is False and
in rows without allowed keys, and masked scores affect neither results nor gradients.
"""


class Softmax(nn.Module):
    """w_k = exp(s_k) / Σ_j exp(s_j) over the positions where the mask is True; rows without such positions are zero.

    Example:
        >>> Softmax()(torch.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero if the mask is False for the whole row)."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        return masked_softmax(scores, mask)


class Sigmoid(nn.Module):
    """w_k = 1 / (1 + exp(−s_k)), for each key independently. **The weights of a row do not sum to one.**

    Reference: Ramapuram et al. 2024, "Theory, analysis, and best practices for sigmoid self-attention".
    Differs from the paper: the paper adds a bias b = −ln K to the scores; this class adds none.

    Example:
        >>> Sigmoid()(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    normalized: ClassVar[bool] = False
    """Each weight is between zero and one; the sum of a row is not fixed."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        return masked_sigmoid(scores, mask)


class _Wrapping(nn.Module):
    """Base class of normalizers that change the scores and pass them to another normalizer, whose properties they copy."""

    def __init__(self, normalizer: nn.Module | str | None) -> None:
        super().__init__()
        self.normalizer = build_normalizer(type(self).__name__, normalizer)
        self.normalized = bool(getattr(self.normalizer, "normalized", False))
        self.permutation_equivariant = keeps_order(self.normalizer)


class Temperature(_Wrapping):
    """Another normalizer applied to scores / T: T < 1 sharpens the weights, T > 1 flattens them.

    Reference: Hinton, Vinyals, Dean 2015, eq. 1.

    Args:
        normalizer: Module that computes weights from (scores / T, mask), or its name; None for `Softmax`.
        temperature: T, finite and > 0.

    Raises:
        ConfigError: If the temperature is not finite and above zero, or the normalizer is unknown.

    Example:
        >>> Temperature(temperature=0.5)(torch.tensor([1.0, 2.0]))
        tensor([0.1192, 0.8808])
    """

    def __init__(self, normalizer: nn.Module | str | None = None, *, temperature: float) -> None:
        super().__init__(normalizer)
        check_number("Temperature", "temperature", temperature)
        if not 0 < temperature < math.inf:
            raise ConfigError(
                f"Temperature(temperature={temperature}): expected a finite number above 0; below 1 sharpens the weights, "
                "above 1 flattens them"
            )
        self.temperature = temperature

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        # In float32, because 60,000 / 0.5 overflows in float16.
        return self.normalizer(at_least_float32(scores) / self.temperature, mask).to(scores.dtype)

    def extra_repr(self) -> str:
        """Return the temperature, for `print`."""
        return f"temperature={self.temperature}"


class SoftCap(_Wrapping):
    """Another normalizer applied to c tanh(s / c), which lies between −c and c.

    Reference: Bello et al. 2017, "Neural combinatorial optimization", section 5.2 (C = 10); Gemma team 2024, "Gemma 2", section
    2.2 (c = 50).

    Args:
        normalizer: Module that computes weights from (c tanh(s / c), mask), or its name; None for `Softmax`.
        cap: c, finite and > 0.

    Raises:
        ConfigError: If the cap is not finite and above zero, or the normalizer is unknown.

    Example:
        >>> SoftCap(cap=1.0)(torch.tensor([100.0, -100.0]))
        tensor([0.8808, 0.1192])
    """

    def __init__(self, normalizer: nn.Module | str | None = None, *, cap: float) -> None:
        super().__init__(normalizer)
        check_number("SoftCap", "cap", cap)
        if not 0 < cap < math.inf:
            raise ConfigError(f"SoftCap(cap={cap}): expected a finite number above 0, the bound of the scores, such as cap=50")
        self.cap = cap

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        rows = at_least_float32(scores)
        bent = self.cap * ((rows if mask is None else rows.where(mask, 0)) / self.cap).tanh()
        return self.normalizer(bent, mask).to(scores.dtype)

    def extra_repr(self) -> str:
        """Return the cap, for `print`."""
        return f"cap={self.cap}"


def keeps_order(normalizer: nn.Module) -> bool:
    """Return whether permuting the scores permutes the normalizer's weights in the same way."""
    return bool(getattr(normalizer, "permutation_equivariant", True))


def is_softmax(normalizer: nn.Module) -> bool:
    """Return whether kernels may compute a softmax instead of calling this normalizer, which must be exactly a `Softmax`."""
    return type(normalizer) is Softmax


_NAMES: dict[str, type[nn.Module]] = {
    "softmax": Softmax,
    "sparsemax": Sparsemax,
    "entmax15": Entmax15,
    "entmax": Entmax,
    "sigmoid": Sigmoid,
    "sink": SoftmaxSink,
    "softpick": Softpick,
    "stick_breaking": StickBreaking,
}


def build_normalizer(called: str, normalizer: nn.Module | str | None) -> nn.Module:
    """Return the normalizer for a mechanism: the given module, a module built from its name, or a softmax for None.

    Args:
        called: Name of the mechanism, for error messages.
        normalizer: A module called with (scores, mask), a name such as "sparsemax", or None for a softmax.

    Raises:
        ConfigError: If the name is unknown, or the object is not a module that takes (scores, mask).

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
