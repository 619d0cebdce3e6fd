"""Settings of attention mechanisms with one head. The formulas are in the modules of `regard.attention`.

The settings of a mechanism have the names of its constructor's arguments, so that one `build` serves all of them. They are
here and not beside the mechanisms, because settings are read and explained without torch, which takes seconds to import.

To use your own mechanism in a configuration, write its config class, and import the class's module:

    class MineConfig(AttentionConfig, kind="mine"):
        def build(self, *, query_size, key_size):
            return Mine(query_size, key_size=key_size)
"""

from dataclasses import field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Le

from regard.config.fields import Count, Dropout, Natural, NotNegative, Positive, Role, Width
from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.settings import Family
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.attention.base import Attention


class AttentionConfig(Family):
    """Settings of an attention mechanism with queries and keys (a pooling has no queries)."""

    mechanism: ClassVar[str] = ""
    """Name of the mechanism's class in `regard.attention`; empty if the config's name is this name and "Config"."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        """Build the mechanism, with initial parameters drawn from torch's random generator.

        Args:
            query_size: Dq, width of the queries.
            key_size: Dk, width of the keys.

        Raises:
            ConfigError: If a width is below 1, or the mechanism does not accept these widths.
        """
        return self.construct(self.mechanism, query_size, key_size)

    def construct(self, name: str, query_size: int, key_size: int, *, without: str = "kind") -> Any:
        """Build a mechanism, by default the one with the config's name, from the settings of the same names as its arguments.

        A setting whose default is 0 is left out while it is 0, so that the mechanism's own default applies. The setting
        `without` chooses the class, and is no argument of its constructor.
        """
        import regard.attention
        from regard.attention.arguments import constructor_parameters

        name = name or type(self).__name__.removesuffix("Config")
        cls = getattr(regard.attention, name)
        arguments: dict[str, Any] = {}
        if "key_size" in (parameter.name for parameter in constructor_parameters(cls)):
            arguments["key_size"] = key_size
        if query_size != key_size and getattr(cls, "equal_widths", False):
            raise ConfigError(
                f"{name}(query_size={query_size}, key_size={key_size}): query and key must have the same width for this "
                "score. Make them equal (in a run: model.decoder.hidden_size, and model.encoder.hidden_size times its "
                "directions), or choose 'general' (a matrix between them) or 'additive', which take any two widths"
            )
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, NormalizerConfig):
                arguments[item.name] = value.build()
            elif isinstance(value, AttentionConfig):
                arguments[item.name] = value.build(query_size=query_size, key_size=key_size)
            elif item.name not in ("kind", without) and (value is False or value or item.default):
                arguments[item.name] = value
        return cls(query_size, **arguments)

    def within(self, *, num_heads: int, dropout: float) -> Self:
        """Return the settings for use in a Transformer, whose heads and dropout replace a `num_heads` and a `dropout` of 0."""
        return self


class NormalizedSettings(AttentionConfig):
    """Settings of a mechanism that turns scores into weights with a normalizer."""

    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """Function that turns scores into weights."""
    scale: NotNegative = 0.0
    """Factor that multiplies the scores; 0 for the mechanism's default, which is 1/√width for scaled dot products, else 1."""
    dropout: Dropout = 0.0
    """Dropout on the attention weights in training."""


class TanhSettings(NormalizedSettings):
    """Settings of a mechanism whose scores come from a tanh layer."""

    attention_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of the tanh layer; 0 for the query's width."""


class ScorerConfig(NormalizedSettings):
    """Settings of a mechanism that computes a score for each pair of query and key, and turns the scores into weights.

    Another mechanism, such as `local_monotonic`, can use its scores (setting `scorer`).
    """


class AdditiveConfig(TanhSettings, ScorerConfig, kind="additive"):
    """v·tanh(W_q q + W_k k) (Bahdanau et al. 2015)."""

    bias: bool = False
    """Whether there is a bias inside the tanh."""


class DotConfig(ScorerConfig, kind="dot"):
    """q·k (Luong et al. 2015, eq. 8); query and key must have the same width."""

    scaled: bool = False
    """Whether to divide the scores by √width (Vaswani et al. 2017)."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        return self.construct("ScaledDot" if self.scaled else "Dot", query_size, key_size, without="scaled")


class GeneralConfig(ScorerConfig, kind="general"):
    """k·(W q) (Luong et al. 2015, eq. 8)."""


class ConcatConfig(TanhSettings, ScorerConfig, kind="concat"):
    """v·tanh(W [q; k]) (Luong et al. 2015, eq. 8)."""


class SumConcatConfig(TanhSettings, ScorerConfig, kind="sum_concat"):
    """v·tanh(W (q + k)), a variant of `concat` from a well-known tutorial; query and key must have the same width."""


class LinearConfig(ScorerConfig, kind="linear"):
    """w·[q; k] + b. The query's part cancels in a softmax, so weights don't depend on the query (for preset `tutorial-gru`)."""

    mechanism: ClassVar[str] = "LinearConcat"


class CosineScoreConfig(ScorerConfig, kind="cosine"):
    """g q·k / (‖q‖ ‖k‖), g times the cosine of the angle (Graves et al. 2014); query and key must have the same width."""

    mechanism: ClassVar[str] = "Cosine"
    scale: Positive = 10.0
    """Initial value of g, the factor that multiplies the cosine; no score is larger than g."""
    learned: bool = True
    """Whether to train g, the factor that multiplies the cosine."""


class TrilinearConfig(ScorerConfig, kind="trilinear"):
    """w·[q; k; q∘k] (Seo et al. 2017); query and key must have the same width."""


class WeightNormAdditiveConfig(TanhSettings, ScorerConfig, kind="weight_norm_additive"):
    """g v/‖v‖ · tanh(W_q q + W_k k + b), an additive score with a learned scale g (Raffel et al. 2017)."""


class SelfAttentionConfig(NormalizedSettings, kind="self_attention"):
    """One head of scaled dot products, with projections of queries, keys and values; query and key must have the same width."""


class CoverageConfig(TanhSettings, kind="coverage"):
    """`additive` with the key's earlier weights, summed, inside the tanh, and a loss for repeated attention (See et al. 2017).

    `training.attention_loss_weight` is the weight of this loss.
    """

    bias: bool = True
    """Whether there is a bias inside the tanh."""


class FertilityCoverageConfig(TanhSettings, kind="fertility_coverage"):
    """`coverage` without its loss; a key's earlier weights are divided by its predicted fertility (Tu et al. 2016).

    The fertility of a source word is the number of target words that translate it.
    """

    max_fertility: Positive = 2.0
    """Largest fertility (number of target words that translate a source word) that the model can predict."""
    bias: bool = False
    """Whether there is a bias inside the tanh."""


class LocationSensitiveConfig(TanhSettings, kind="location_sensitive"):
    """`additive` with a convolution of the previous query's weights inside the tanh (Chorowski et al. 2015)."""

    num_filters: Width = 32
    """Number of filters of the convolution."""
    kernel_size: Width = 31
    """Number of keys that a filter covers, an odd number."""


class LocalMonotonicConfig(AttentionConfig, kind="local_monotonic"):
    """Attention within a window of keys, which is around position t for query t (Luong et al. 2015, local-m)."""

    window: Natural = 10
    """Number of keys on each side of the window's centre."""
    scorer: ScorerConfig = field(default_factory=GeneralConfig)
    """Mechanism that computes the scores and the weights within the window."""


class LocalPredictiveConfig(AttentionConfig, kind="local_predictive"):
    """Attention in a window around a predicted position, with weights multiplied by a Gaussian (Luong et al. 2015, local-p)."""

    window: Count = 10
    """Number of keys on each side of the window's centre."""
    position_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of the layer that predicts the centre of the window; 0 for the query's width."""
    scorer: ScorerConfig = field(default_factory=GeneralConfig)
    """Mechanism that computes the scores and the weights within the window."""


class _ScanConfig(AttentionConfig):
    """Settings of a monotonic scan: each query reads the keys in order, from the key at which the previous query stopped."""

    scorer: ScorerConfig = field(default_factory=WeightNormAdditiveConfig)
    """Mechanism whose scores decide at which key the scan stops; its normalizer is not used."""
    initial_offset: float = -1.0
    """Initial value of a learned number that is added to the scores. The lower it is, the later the scan stops; choose a lower
    value for longer sources.
    """


class _TrainedScanConfig(_ScanConfig):
    """Settings of a mechanism that trains with the expected weights of a scan, because a choice of keys has no gradient."""

    noise: NotNegative = 1.0
    """Standard deviation of the noise that training adds to the scores of the scan."""
    decoding: Literal["hard", "soft"] = "hard"
    """Weights outside of training: those of one scan (`hard`), or the expected weights (`soft`)."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.ordered.monotonic import SoftToHard

        soft = self.construct(self.mechanism, query_size, key_size, without="decoding")
        return SoftToHard(soft) if self.decoding == "hard" else soft


class MonotonicConfig(_TrainedScanConfig, kind="monotonic"):
    """A scan that stops at one key for each query, and goes on from there for the next query (Raffel et al. 2017).

    Training uses the expected weights of this scan, because a choice of keys has no gradient.
    """

    mechanism: ClassVar[str] = "SoftMonotonic"


class HardMonotonicConfig(_ScanConfig, kind="hard_monotonic"):
    """A monotonic scan that stops at one key for each query, also in training; the choice of the key has no gradient."""


class _ChunkConfig(_ScanConfig):
    """Settings of a monotonic scan, and of a softmax over the chunk of keys that ends at the key where the scan stops."""

    chunk_size: Annotated[int, Ge(1), Le(1000)] = 8
    """Number of keys in a chunk. A chunk ends at the key where the scan stops."""
    chunk_scorer: ScorerConfig = field(default_factory=WeightNormAdditiveConfig)
    """Mechanism that computes the scores for the softmax within a chunk; its normalizer is not used."""


class MoChAConfig(_ChunkConfig, _TrainedScanConfig, kind="mocha"):
    """A monotonic scan, and a softmax over the chunk of keys that ends where the scan stops (Chiu & Raffel 2018).

    Training uses the expected weights of this process, because a choice of keys has no gradient.
    """


class HardMoChAConfig(_ChunkConfig, kind="hard_mocha"):
    """A softmax over the chunk where a monotonic scan stops, also in training; the choice of the chunk has no gradient."""
