"""Settings of poolings, which turn a sequence into one vector. The formulas are in `regard.attention.pooling`."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.settings import COUNT, NOT_NEGATIVE, Family, Range

if TYPE_CHECKING:
    from regard.attention.pooling_base import Pooling


@dataclass(frozen=True, kw_only=True)
class PoolingConfig(Family):
    """Settings of a pooling, a weighted average of the states of a sequence.

    To use your own pooling in a configuration, write a subclass with a default for `kind`.
    """

    ranges: ClassVar[Mapping[str, Range]] = {"num_heads": COUNT, "attention_size": NOT_NEGATIVE}

    kind: str

    @abstractmethod
    def build(self, *, size: int) -> "Pooling":
        """Build the pooling for values of width `size`, with initial parameters drawn from torch's random generator.

        Raises:
            ConfigError: If a width or the number of heads is below 1.
        """


@dataclass(frozen=True, kw_only=True)
class ScoredPoolingConfig(PoolingConfig):
    """Settings of a pooling that computes a score for each state, and turns the scores into weights with a normalizer."""

    kind: str
    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """Function that turns scores into weights."""


@dataclass(frozen=True, kw_only=True)
class LinearPoolingConfig(ScoredPoolingConfig):
    """The score w·h + b of each state h; a normalizer (by default a softmax) turns the scores into weights."""

    kind: Literal["linear"] = "linear"

    def build(self, *, size: int) -> "Pooling":
        from regard.attention.pooling import AttentionPooling

        return AttentionPooling(size, normalizer=self.normalizer.build())


@dataclass(frozen=True, kw_only=True)
class AdditivePoolingConfig(ScoredPoolingConfig):
    """The score v·tanh(W h + b) of each state h; a normalizer turns the scores into weights (Yang et al. 2016, eq. 5 to 7)."""

    kind: Literal["additive"] = "additive"
    attention_size: int = 0
    """Width of the tanh layer; 0 for the states' width."""

    def build(self, *, size: int) -> "Pooling":
        from regard.attention.pooling import AdditivePooling

        return AdditivePooling(size, attention_size=self.attention_size or None, normalizer=self.normalizer.build())


@dataclass(frozen=True, kw_only=True)
class MultiHeadPoolingConfig(ScoredPoolingConfig):
    """Several heads with their own scores and weights, whose results are concatenated (Lin et al. 2017)."""

    kind: Literal["multi_head"] = "multi_head"
    num_heads: int = 4
    """Number of heads."""
    attention_size: int = 0
    """Width of the tanh layer, which the heads share; 0 for the states' width."""

    def build(self, *, size: int) -> "Pooling":
        from regard.attention.pooling import MultiHeadPooling

        width, normalizer = self.attention_size or None, self.normalizer.build()
        return MultiHeadPooling(size, num_heads=self.num_heads, attention_size=width, normalizer=normalizer)


@dataclass(frozen=True, kw_only=True)
class MeanPoolingConfig(PoolingConfig):
    """Equal weights for all states, as a baseline that shows how much attention improves the results."""

    kind: Literal["mean"] = "mean"

    def build(self, *, size: int) -> "Pooling":
        from regard.attention.pooling import MeanPooling

        return MeanPooling(size)
