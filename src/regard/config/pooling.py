"""Settings of poolings, which turn a sequence into one vector. The formulas are in `regard.attention.pooling`."""

from dataclasses import field, fields
from typing import TYPE_CHECKING, Annotated, ClassVar

from regard.config.fields import Natural, Role, Width
from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.settings import Family

if TYPE_CHECKING:
    from regard.attention.pooling import Pooling


class PoolingConfig(Family):
    """Settings of a pooling, a weighted average of the states of a sequence.

    To use your own pooling in a configuration, write a subclass with a `kind`.
    """

    mechanism: ClassVar[str] = ""
    """Name of the pooling's class in `regard.attention`; empty if the config's name is this name and "Config"."""

    def build(self, *, size: int) -> "Pooling":
        """Build the pooling for values of width `size`, with initial parameters drawn from torch's random generator.

        Raises:
            ConfigError: If a width or the number of heads is below 1.
        """
        import regard.attention

        settings = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "kind"}
        # A width of 0 is left out, so that the pooling's own default applies.
        given = {name: each.build() if isinstance(each, NormalizerConfig) else each for name, each in settings.items() if each}
        name = self.mechanism or type(self).__name__.removesuffix("Config")
        pooling: Pooling = getattr(regard.attention, name)(size, **given)
        return pooling


class ScoredPoolingSettings(PoolingConfig):
    """Settings of a pooling that computes a score for each state, and turns the scores into weights with a normalizer."""

    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """Function that turns scores into weights."""


class LinearPoolingConfig(ScoredPoolingSettings, kind="linear"):
    """The score w·h + b of each state h; a normalizer (by default a softmax) turns the scores into weights."""

    mechanism: ClassVar[str] = "AttentionPooling"


class AdditivePoolingConfig(ScoredPoolingSettings, kind="additive"):
    """The score v·tanh(W h + b) of each state h; a normalizer turns the scores into weights (Yang et al. 2016, eq. 5 to 7)."""

    attention_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of the tanh layer; 0 for the states' width."""


class GatedPoolingConfig(AdditivePoolingConfig, kind="gated"):
    """The score v·(tanh(W h) ⊙ σ(U h)) of each state h; a normalizer turns it into weights (Ilse et al. 2018, eq. 9)."""

    attention_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of the tanh layer and of the gate; 0 for the states' width."""


class MultiHeadPoolingConfig(ScoredPoolingSettings, kind="multi_head"):
    """Several heads with their own scores and weights, whose results are concatenated (Lin et al. 2017)."""

    num_heads: Width = 4
    """Number of heads."""
    attention_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of the tanh layer, which the heads share; 0 for the states' width."""


class MeanPoolingConfig(PoolingConfig, kind="mean"):
    """Equal weights for all states, as a baseline that shows how much attention improves the results."""
