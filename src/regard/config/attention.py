"""Settings of attention mechanisms. The formulas are in the modules of `regard.attention`.

To use your own mechanism in a configuration, write its config class, and import the class's module:

    @dataclass(frozen=True, kw_only=True)
    class MineConfig(AttentionConfig):
        kind: Literal["mine"] = "mine"

        def build(self, *, query_size, key_size):
            return Mine(query_size, key_size=key_size)
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.settings import BELOW_ONE, NOT_NEGATIVE, POSITIVE, Family, Range
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.attention.base import Attention
    from regard.attention.scored import ScoredAttention

_REMEDY = (
    "Make them equal (in a run: model.decoder.hidden_size, and model.encoder.hidden_size times its directions), or choose "
    "'general' (a matrix between them) or 'additive', which take any two widths"
)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(Family):
    """Settings of an attention mechanism with queries and keys (a pooling has no queries)."""

    kind: str

    @abstractmethod
    def build(self, *, query_size: int, key_size: int) -> "Attention":
        """Build the mechanism, with initial parameters drawn from torch's random generator.

        Args:
            query_size: Dq, width of the queries.
            key_size: Dk, width of the keys.

        Raises:
            ConfigError: If a width is below 1, or the mechanism does not accept these widths.
        """

    def within(self, *, num_heads: int, dropout: float) -> Self:
        """Return the settings for use in a Transformer; by default, they stay unchanged.

        Args:
            num_heads: Number of heads of the Transformer, which replaces a `num_heads` of 0.
            dropout: Dropout on the attention weights of the Transformer, which replaces a `dropout` of 0.
        """
        return self


@dataclass(frozen=True, kw_only=True)
class NormalizedConfig(AttentionConfig):
    """Settings of a mechanism that turns scores into weights with a normalizer."""

    ranges: ClassVar[Mapping[str, Range]] = {"attention_size": NOT_NEGATIVE, "scale": NOT_NEGATIVE, "dropout": BELOW_ONE}

    kind: str
    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """Function that turns scores into weights."""
    scale: float = 0.0
    """Factor that multiplies the scores; 0 for the mechanism's default, which is 1/√width for scaled dot products, else 1."""
    dropout: float = 0.0
    """Dropout on the attention weights in training."""

    def score_options(self) -> dict[str, Any]:
        """Return the arguments for the constructor of the mechanism: `normalizer`, `scale` and `dropout`."""
        return {"normalizer": self.normalizer.build(), "scale": self.scale or None, "dropout": self.dropout}


@dataclass(frozen=True, kw_only=True)
class TanhConfig(NormalizedConfig):
    """Settings of a mechanism whose scores come from a tanh layer."""

    kind: str
    attention_size: int = 0
    """Width of the tanh layer; 0 for the query's width."""


@dataclass(frozen=True, kw_only=True)
class ScorerConfig(NormalizedConfig):
    """Settings of a mechanism that computes a score for each pair of query and key, and turns the scores into weights.

    Another mechanism, such as `local_monotonic`, can use its scores (setting `scorer`).
    """

    @abstractmethod
    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        """Build the mechanism; see `AttentionConfig.build`."""


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig(TanhConfig, ScorerConfig):
    """v·tanh(W_q q + W_k k) (Bahdanau et al. 2015)."""

    kind: Literal["additive"] = "additive"
    bias: bool = False
    """Whether there is a bias inside the tanh."""

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.additive import Additive

        return Additive(
            query_size,
            key_size=key_size,
            attention_size=self.attention_size or None,
            bias=self.bias,
            **self.score_options(),
        )


@dataclass(frozen=True, kw_only=True)
class DotConfig(ScorerConfig):
    """q·k (Luong et al. 2015, eq. 8); query and key must have the same width."""

    kind: Literal["dot"] = "dot"
    scaled: bool = False
    """Whether to divide the scores by √width (Vaswani et al. 2017)."""

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.multiplicative import Dot, ScaledDot

        check_equal_widths("Dot", query_size, key_size)
        return (ScaledDot if self.scaled else Dot)(query_size, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class GeneralConfig(ScorerConfig):
    """k·(W q) (Luong et al. 2015, eq. 8)."""

    kind: Literal["general"] = "general"

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.multiplicative import General

        return General(query_size, key_size=key_size, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class ConcatConfig(TanhConfig, ScorerConfig):
    """v·tanh(W [q; k]) (Luong et al. 2015, eq. 8)."""

    kind: Literal["concat"] = "concat"

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.concat import Concat

        width = self.attention_size or None
        return Concat(query_size, key_size=key_size, attention_size=width, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class SumConcatConfig(TanhConfig, ScorerConfig):
    """v·tanh(W (q + k)), a variant of `concat` from a well-known tutorial; query and key must have the same width."""

    kind: Literal["sum_concat"] = "sum_concat"

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.concat import SumConcat

        check_equal_widths("SumConcat", query_size, key_size)
        return SumConcat(query_size, attention_size=self.attention_size or None, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class LinearConfig(ScorerConfig):
    """w·[q; k] + b. The query's part cancels in a softmax, so weights don't depend on the query (for preset `tutorial-gru`)."""

    kind: Literal["linear"] = "linear"

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.linear import LinearConcat

        return LinearConcat(query_size, key_size=key_size, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class CosineScoreConfig(ScorerConfig):
    """g q·k / (‖q‖ ‖k‖), g times the cosine of the angle (Graves et al. 2014); query and key must have the same width."""

    ranges: ClassVar[Mapping[str, Range]] = {**NormalizedConfig.ranges, "scale": POSITIVE}

    kind: Literal["cosine"] = "cosine"
    scale: float = 10.0
    """Initial value of g, the factor that multiplies the cosine; no score is larger than g."""
    learned: bool = True
    """Whether to train g, the factor that multiplies the cosine."""

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.cosine import Cosine

        check_equal_widths("Cosine", query_size, key_size)
        return Cosine(query_size, learned=self.learned, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class TrilinearConfig(ScorerConfig):
    """w·[q; k; q∘k] (Seo et al. 2017); query and key must have the same width."""

    kind: Literal["trilinear"] = "trilinear"

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.trilinear import Trilinear

        check_equal_widths("Trilinear", query_size, key_size)
        return Trilinear(query_size, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class WeightNormAdditiveConfig(TanhConfig, ScorerConfig):
    """g v/‖v‖ · tanh(W_q q + W_k k + b), an additive score with a learned scale g (Raffel et al. 2017)."""

    kind: Literal["weight_norm_additive"] = "weight_norm_additive"

    def build(self, *, query_size: int, key_size: int) -> "ScoredAttention":
        from regard.attention.monotonic import WeightNormAdditive

        width = self.attention_size or None
        return WeightNormAdditive(query_size, key_size=key_size, attention_size=width, **self.score_options())


@dataclass(frozen=True, kw_only=True)
class SelfAttentionConfig(NormalizedConfig):
    """One head of scaled dot products, with projections of queries, keys and values; query and key must have the same width."""

    kind: Literal["self_attention"] = "self_attention"

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.self_attention import SelfAttention

        check_equal_widths("SelfAttention", query_size, key_size)
        return SelfAttention(query_size, **self.score_options())


def check_equal_widths(called: str, query_size: int, key_size: int) -> None:
    """Raise an error if queries and keys have different widths.

    Args:
        called: Name of the mechanism, for the message.
        query_size: Width of the queries.
        key_size: Width of the keys.

    Raises:
        ConfigError: If the widths differ.
    """
    if query_size != key_size:
        raise ConfigError(
            f"{called}(query_size={query_size}, key_size={key_size}): query and key must have the same width for this score. "
            f"{_REMEDY}"
        )
