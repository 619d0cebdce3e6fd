"""Interface of every normalizer, a function that turns the scores of a row into weights."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import CheckedModule, check_instance
from regard.attention.precision import at_least_float32
from regard.errors import ConfigError, nearest


class Normalizer(CheckedModule, ABC):
    """A function from scores (…,K) to weights of the same shape and type. Any module that is called with scores can be one.

    A mechanism sets masked scores to −∞, and gives no row in which all scores are −∞. The weight of a score of −∞ must be zero,
    and neither it nor its gradient may be NaN.

    Example:
        >>> class Uniform(Normalizer):
        ...     def weights(self, scores):
        ...         allowed = (scores > -torch.inf).to(scores.dtype)
        ...         return allowed / allowed.sum(-1, keepdim=True)
        >>> Uniform()(torch.tensor([2.0, 1.0, -torch.inf]))
        tensor([0.5000, 0.5000, 0.0000])
    """

    name: ClassVar[str] = ""
    """Name by which mechanisms and settings choose the normalizer; empty for none."""
    normalized: bool = True
    """Whether each row of weights sums to one; if not, its sum is between zero and one (`Sigmoid`: between zero and K)."""
    permutation_equivariant: bool = True
    """Whether permuting the scores permutes the weights in the same way."""

    @abstractmethod
    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        """Return the weights for scores in float32 or float64, K ≥ 1."""

    def forward(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; half types are computed in float32."""
        return self.weights(at_least_float32(scores)).to(scores.dtype) if scores.shape[-1] else scores


def keeps_order(normalizer: nn.Module) -> bool:
    """Return whether permuting the scores permutes the normalizer's weights in the same way."""
    return bool(getattr(normalizer, "permutation_equivariant", True))


def named_normalizer(called: str, name: str, **settings: Any) -> Normalizer:
    """Build the normalizer of a name, with the given arguments."""
    named = {cls.name: cls for cls in sorted(Normalizer.__subclasses__(), key=lambda cls: cls.name) if cls.name}
    if name not in named:
        names = ", ".join(f"'{each}'" for each in named)
        raise ConfigError(
            f"{called}(normalizer={name!r}): expected {names}, or a module with forward(scores){nearest(name, named)}"
        )
    return named[name](**settings)


def build_normalizer(called: str, normalizer: nn.Module | str | None, num_heads: int | None = None) -> nn.Module:
    """Return the given module, a module built from its name, or a softmax for None; `called` is the mechanism, for errors.

    If `num_heads` is given, raise an error if the module is for another number of heads.
    """
    if normalizer is None or isinstance(normalizer, str):
        return named_normalizer(called, "softmax" if normalizer is None else normalizer)
    check_instance(called, "normalizer", normalizer, nn.Module, "Sparsemax()")
    own = getattr(normalizer, "num_heads", None)
    if num_heads is not None and own not in (None, num_heads):
        given = f"{called}(normalizer={type(normalizer).__name__}(…))"
        raise ConfigError(f"{given}: the normalizer is for {own} heads, expected {num_heads}; give it num_heads={num_heads}")
    return normalizer
