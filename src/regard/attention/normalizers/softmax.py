"""Normalizers turn scores into weights; most mechanisms have an argument `normalizer`, a module or a name.

    w_k = exp(s_k) / Σ_j exp(s_j)        `Softmax`, "softmax"          in code: `masked_softmax`
    w_k = 1 / (1 + exp(−s_k))            `Sigmoid`, "sigmoid"                   its `weights`
    w = normalizer(s / T)                `Temperature`                          its `weights`
    w = normalizer(c tanh(s / c))        `SoftCap`                              its `weights`

Others are in `sparse` and `sink`; `base.Normalizer` describes what all normalizers have in common.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_number
from regard.attention.fast.softmax import softmax
from regard.attention.masks import check_boolean
from regard.attention.normalizers.base import Normalizer, build_normalizer, keeps_order


def masked_softmax(scores: Float[Tensor, "*batch K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*batch K"]:
    """Return the softmax over the positions of the last axis at which the mask is True.

    A row masked as a whole has zero weights and gradients. Masked scores, even infinite ones and NaN, affect neither result nor
    gradient.

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


class Softmax(Normalizer):
    """w_k = exp(s_k) / Σ_j exp(s_j).

    Example:
        >>> Softmax()(torch.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    name = "softmax"

    def forward(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        return softmax(scores)

    weights = forward


class Sigmoid(Normalizer):
    """w_k = 1 / (1 + exp(−s_k)), for each key independently. **The weights of a row do not sum to one.**

    Reference: Ramapuram et al. 2024, "Theory, analysis, and best practices for sigmoid self-attention".
    Differs from the paper: the paper adds a bias b = −ln K to the scores; this class adds none.

    Example:
        >>> Sigmoid()(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    name = "sigmoid"
    normalized = False

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        return scores.sigmoid()


class _Wrapping(Normalizer):
    """Base class of normalizers that change the scores and pass them to another normalizer, whose properties they copy."""

    def __init__(self, normalizer: nn.Module | str | None) -> None:
        super().__init__()
        self.normalizer = build_normalizer(type(self).__name__, normalizer)
        self.normalized = bool(getattr(self.normalizer, "normalized", False))
        self.permutation_equivariant = keeps_order(self.normalizer)
        self.num_heads = getattr(self.normalizer, "num_heads", None)


class Temperature(_Wrapping):
    """Another normalizer applied to scores / T: T < 1 sharpens the weights, T > 1 flattens them.

    Reference: Hinton, Vinyals, Dean 2015, eq. 1.

    Args:
        normalizer: Module that computes weights from scores / T, or its name; None for `Softmax`.
        temperature: T, finite and > 0.

    Example:
        >>> Temperature(temperature=0.5)(torch.tensor([1.0, 2.0]))
        tensor([0.1192, 0.8808])
    """

    def __init__(self, normalizer: nn.Module | str | None = None, *, temperature: float) -> None:
        super().__init__(normalizer)
        self.temperature = check_number("Temperature", "temperature", temperature, above=0)

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        """Return normalizer(s / T), computed in float32, because 60,000 / 0.5 overflows in float16."""
        return self.normalizer(scores / self.temperature)


class SoftCap(_Wrapping):
    """Another normalizer applied to c tanh(s / c), which lies between −c and c.

    Reference: Bello et al. 2017, "Neural combinatorial optimization", section 5.2 (C = 10); Gemma team 2024, "Gemma 2", section
    2.2 (c = 50).

    Args:
        normalizer: Module that computes weights from c tanh(s / c), or its name; None for `Softmax`.
        cap: c, finite and > 0.

    Example:
        >>> SoftCap(cap=1.0)(torch.tensor([100.0, -100.0]))
        tensor([0.8808, 0.1192])
    """

    def __init__(self, normalizer: nn.Module | str | None = None, *, cap: float) -> None:
        super().__init__(normalizer)
        self.cap = check_number("SoftCap", "cap", cap, above=0)

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        """Return normalizer(c tanh(s / c)); a score of −∞, which is a masked one, stays −∞."""
        bent = self.cap * (scores / self.cap).tanh()
        return self.normalizer(bent.where(scores > -torch.inf, -torch.inf))
