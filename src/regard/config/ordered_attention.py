"""Settings of mechanisms that use earlier weights, a window or a scan; see `config.attention` and `config.heads` for others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from regard.config.attention import (
    AttentionConfig,
    GeneralConfig,
    NormalizedConfig,
    ScorerConfig,
    TanhConfig,
    WeightNormAdditiveConfig,
)
from regard.config.settings import ANY, COUNT, FEW, NOT_NEGATIVE, POSITIVE, Range

if TYPE_CHECKING:
    from regard.attention.base import Attention


@dataclass(frozen=True, kw_only=True)
class CoverageConfig(TanhConfig):
    """`additive` with the key's earlier weights, summed, inside the tanh, and a loss for repeated attention (See et al. 2017).

    `training.attention_loss_weight` is the weight of this loss.
    """

    kind: Literal["coverage"] = "coverage"
    bias: bool = True
    """Whether there is a bias inside the tanh."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.coverage import Coverage

        return Coverage(
            query_size,
            key_size=key_size,
            attention_size=self.attention_size or None,
            bias=self.bias,
            **self.score_options(),
        )


@dataclass(frozen=True, kw_only=True)
class FertilityCoverageConfig(TanhConfig):
    """`coverage` without its loss; a key's earlier weights are divided by its predicted fertility (Tu et al. 2016).

    The fertility of a source word is the number of target words that translate it.
    """

    ranges: ClassVar[Mapping[str, Range]] = {**NormalizedConfig.ranges, "max_fertility": POSITIVE}

    kind: Literal["fertility_coverage"] = "fertility_coverage"
    max_fertility: float = 2.0
    """Largest fertility (number of target words that translate a source word) that the model can predict."""
    bias: bool = False
    """Whether there is a bias inside the tanh."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.coverage import FertilityCoverage

        return FertilityCoverage(
            query_size,
            key_size=key_size,
            attention_size=self.attention_size or None,
            max_fertility=self.max_fertility,
            bias=self.bias,
            **self.score_options(),
        )


@dataclass(frozen=True, kw_only=True)
class LocationSensitiveConfig(TanhConfig):
    """`additive` with a convolution of the previous query's weights inside the tanh (Chorowski et al. 2015)."""

    ranges: ClassVar[Mapping[str, Range]] = {**NormalizedConfig.ranges, "num_filters": COUNT, "kernel_size": COUNT}

    kind: Literal["location_sensitive"] = "location_sensitive"
    num_filters: int = 32
    """Number of filters of the convolution."""
    kernel_size: int = 31
    """Number of keys that a filter covers, an odd number."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.location import LocationSensitive

        return LocationSensitive(
            query_size,
            key_size=key_size,
            attention_size=self.attention_size or None,
            num_filters=self.num_filters,
            kernel_size=self.kernel_size,
            **self.score_options(),
        )


@dataclass(frozen=True, kw_only=True)
class LocalMonotonicConfig(AttentionConfig):
    """Attention within a window of keys, which is around position t for query t (Luong et al. 2015, local-m)."""

    ranges: ClassVar[Mapping[str, Range]] = {"window": NOT_NEGATIVE}

    kind: Literal["local_monotonic"] = "local_monotonic"
    window: int = 10
    """Number of keys on each side of the window's centre."""
    scorer: ScorerConfig = field(default_factory=GeneralConfig)
    """Mechanism that computes the scores and the weights within the window."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.local import LocalMonotonic

        scorer = self.scorer.build(query_size=query_size, key_size=key_size)
        return LocalMonotonic(query_size, key_size=key_size, window=self.window, scorer=scorer)


@dataclass(frozen=True, kw_only=True)
class LocalPredictiveConfig(AttentionConfig):
    """Attention in a window around a predicted position, with weights multiplied by a Gaussian (Luong et al. 2015, local-p)."""

    ranges: ClassVar[Mapping[str, Range]] = {"window": COUNT, "position_size": NOT_NEGATIVE}

    kind: Literal["local_predictive"] = "local_predictive"
    window: int = 10
    """Number of keys on each side of the window's centre."""
    position_size: int = 0
    """Width of the layer that predicts the centre of the window; 0 for the query's width."""
    scorer: ScorerConfig = field(default_factory=GeneralConfig)
    """Mechanism that computes the scores and the weights within the window."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.local import LocalPredictive

        return LocalPredictive(
            query_size,
            key_size=key_size,
            position_size=self.position_size or None,
            window=self.window,
            scorer=self.scorer.build(query_size=query_size, key_size=key_size),
        )


@dataclass(frozen=True, kw_only=True)
class _ScanConfig(AttentionConfig):
    """Settings of a monotonic scan: each query reads the keys in order, from the key at which the previous query stopped."""

    ranges: ClassVar[Mapping[str, Range]] = {"initial_offset": ANY, "noise": NOT_NEGATIVE, "chunk_size": FEW}

    kind: str
    scorer: ScorerConfig = field(default_factory=WeightNormAdditiveConfig)
    """Mechanism whose scores decide at which key the scan stops; its normalizer is not used."""
    initial_offset: float = -1.0
    """Initial value of a learned number that is added to the scores. The lower it is, the later the scan stops; choose a lower
    value for longer sources.
    """


@dataclass(frozen=True, kw_only=True)
class MonotonicConfig(_ScanConfig):
    """A scan that stops at one key for each query, and goes on from there for the next query (Raffel et al. 2017).

    Training uses the expected weights of this scan, because a choice of keys has no gradient.
    """

    kind: Literal["monotonic"] = "monotonic"
    noise: float = 1.0
    """Standard deviation of the noise that training adds to the scores."""
    decoding: Literal["hard", "soft"] = "hard"
    """Weights outside of training: 1 for the key at which the scan stops (`hard`), or the expected weights (`soft`)."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.soft_monotonic import SoftMonotonic
        from regard.attention.soft_to_hard import SoftToHard

        soft = SoftMonotonic(
            query_size,
            key_size=key_size,
            scorer=self.scorer.build(query_size=query_size, key_size=key_size),
            initial_offset=self.initial_offset,
            noise=self.noise,
        )
        return SoftToHard(soft) if self.decoding == "hard" else soft


@dataclass(frozen=True, kw_only=True)
class HardMonotonicConfig(_ScanConfig):
    """A monotonic scan that stops at one key for each query, also in training; the choice of the key has no gradient."""

    kind: Literal["hard_monotonic"] = "hard_monotonic"

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.hard_monotonic import HardMonotonic

        scorer = self.scorer.build(query_size=query_size, key_size=key_size)
        return HardMonotonic(query_size, key_size=key_size, scorer=scorer, initial_offset=self.initial_offset)


@dataclass(frozen=True, kw_only=True)
class _ChunkConfig(_ScanConfig):
    """Settings of a monotonic scan, and of a softmax over the chunk of keys that ends at the key where the scan stops."""

    kind: str
    chunk_size: int = 8
    """Number of keys in a chunk. A chunk ends at the key where the scan stops."""
    chunk_scorer: ScorerConfig = field(default_factory=WeightNormAdditiveConfig)
    """Mechanism that computes the scores for the softmax within a chunk; its normalizer is not used."""


@dataclass(frozen=True, kw_only=True)
class MoChAConfig(_ChunkConfig):
    """A monotonic scan, and a softmax over the chunk of keys that ends where the scan stops (Chiu & Raffel 2018).

    Training uses the expected weights of this process, because a choice of keys has no gradient.
    """

    kind: Literal["mocha"] = "mocha"
    noise: float = 1.0
    """Standard deviation of the noise that training adds to the scores of the scan."""
    decoding: Literal["hard", "soft"] = "hard"
    """Weights outside of training: a softmax over the chunk that ends where the scan stops (`hard`), or the expected weights
    (`soft`).
    """

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.mocha import MoChA
        from regard.attention.soft_to_hard import SoftToHard

        soft = MoChA(
            query_size,
            chunk_size=self.chunk_size,
            key_size=key_size,
            scorer=self.scorer.build(query_size=query_size, key_size=key_size),
            chunk_scorer=self.chunk_scorer.build(query_size=query_size, key_size=key_size),
            initial_offset=self.initial_offset,
            noise=self.noise,
        )
        return SoftToHard(soft) if self.decoding == "hard" else soft


@dataclass(frozen=True, kw_only=True)
class HardMoChAConfig(_ChunkConfig):
    """A softmax over the chunk where a monotonic scan stops, also in training; the choice of the chunk has no gradient."""

    kind: Literal["hard_mocha"] = "hard_mocha"

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.hard_mocha import HardMoChA

        return HardMoChA(
            query_size,
            chunk_size=self.chunk_size,
            key_size=key_size,
            scorer=self.scorer.build(query_size=query_size, key_size=key_size),
            chunk_scorer=self.chunk_scorer.build(query_size=query_size, key_size=key_size),
            initial_offset=self.initial_offset,
        )
