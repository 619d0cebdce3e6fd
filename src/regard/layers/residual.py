"""Residual connections around the parts of a Transformer layer, such as its attention.

A connection computes the input of a part, and adds the output of the part to the residual stream x:

x ← residual.after(x, part(residual.before(x)))
"""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import Dropout


class Residual(nn.Module, ABC):
    """A residual connection with a norm at one of its ends.

    Args:
        norm: Norm, such as `nn.LayerNorm` or `nn.RMSNorm`.
        dropout: Dropout on the output of the part, 0 ≤ dropout < 1.
    """

    def __init__(self, norm: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Return the input of the part."""

    @abstractmethod
    def after(self, x: Float[Tensor, "*batch D"], added: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Return the residual stream after adding the output `added` of the part."""


class PreNorm(Residual):
    """x + dropout(part(norm(x))).

    Reference: Wang et al. 2019 (Learning deep Transformer models for machine translation), eq. 2; Xiong et al. 2020.
    """

    def before(self, x: Tensor) -> Tensor:
        """Return norm(x)."""
        return self.norm(x)

    def after(self, x: Tensor, added: Tensor) -> Tensor:
        """Return x + dropout(added)."""
        return x + (self.dropout(added) if self.training else added)  # the call of a module costs as much as the sum


class PostNorm(Residual):
    """norm(α·x + dropout(part(x))).

    Reference: Vaswani et al. 2017, section 5.4 (α = 1); Wang et al. 2022 (DeepNet), eq. 1, for α > 1.

    Args:
        norm: As for `Residual`.
        dropout: As for `Residual`.
        scale: α, factor of the residual stream.
    """

    def __init__(self, norm: nn.Module, *, dropout: float = 0.0, scale: float = 1.0) -> None:
        super().__init__(norm, dropout=dropout)
        self.scale = scale

    def before(self, x: Tensor) -> Tensor:
        """Return x."""
        return x

    def after(self, x: Tensor, added: Tensor) -> Tensor:
        """Return norm(α·x + dropout(added))."""
        added = self.dropout(added) if self.training else added
        return self.norm(x + added if self.scale == 1 else self.scale * x + added)
