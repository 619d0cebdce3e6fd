"""Settings of mechanisms with ordered queries or a window; `config.attention` and `config.heads` contain the other ones."""

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
    """Additive, with the sum of earlier weights inside the tanh, and a loss for repeated attention (See et al. 2017).

    `training.attention_loss_weight` is the weight of the loss.
    """

    kind: Literal["coverage"] = "coverage"
    bias: bool = True
    """Whether the key projection has a bias."""

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
    """Coverage divided by a source word's fertility, the number of target words that translate it (Tu et al. 2016)."""

    ranges: ClassVar[Mapping[str, Range]] = {**NormalizedConfig.ranges, "max_fertility": POSITIVE}

    kind: Literal["fertility_coverage"] = "fertility_coverage"
    max_fertility: float = 2.0
    """Largest fertility that a source word can have."""
    bias: bool = False
    """Whether the key projection has a bias."""

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
    """Additive, with filters over the previous weights inside the tanh (Chorowski et al. 2015)."""

    ranges: ClassVar[Mapping[str, Range]] = {**NormalizedConfig.ranges, "num_filters": COUNT, "kernel_size": COUNT}

    kind: Literal["location_sensitive"] = "location_sensitive"
    num_filters: int = 32
    """Number of filters."""
    kernel_size: int = 31
    """Number of keys that a filter covers; odd."""

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
    """For query t, a window of keys around position t (Luong et al. 2015, local-m)."""

    ranges: ClassVar[Mapping[str, Range]] = {"window": NOT_NEGATIVE}

    kind: Literal["local_monotonic"] = "local_monotonic"
    window: int = 10
    """Number of keys in the window on each side of its centre."""
    scorer: ScorerConfig = field(default_factory=GeneralConfig)
    """Mechanism whose scores and normalizer are used within the window."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.local import LocalMonotonic

        scorer = self.scorer.build(query_size=query_size, key_size=key_size)
        return LocalMonotonic(query_size, key_size=key_size, window=self.window, scorer=scorer)


@dataclass(frozen=True, kw_only=True)
class LocalPredictiveConfig(AttentionConfig):
    """A window of keys around a position that each query predicts, weighted by a Gaussian (Luong et al. 2015, local-p)."""

    ranges: ClassVar[Mapping[str, Range]] = {"window": COUNT, "position_size": NOT_NEGATIVE}

    kind: Literal["local_predictive"] = "local_predictive"
    window: int = 10
    """Number of keys in the window on each side of its centre."""
    position_size: int = 0
    """Width of the layer that predicts the position; 0 for the query's width."""
    scorer: ScorerConfig = field(default_factory=GeneralConfig)
    """Mechanism whose scores and normalizer are used within the window."""

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
    """Settings of a monotonic scan over the keys."""

    ranges: ClassVar[Mapping[str, Range]] = {"initial_offset": ANY, "noise": NOT_NEGATIVE, "chunk_size": FEW}

    kind: str
    scorer: ScorerConfig = field(default_factory=WeightNormAdditiveConfig)
    """Mechanism that computes the scores of the scan; the mechanism's normalizer is not used."""
    initial_offset: float = -1.0
    """Offset of the scores at the start of training; choose a lower offset for longer sources."""


@dataclass(frozen=True, kw_only=True)
class MonotonicConfig(_ScanConfig):
    """Expected weights of a scan over the keys that starts where the previous query's scan stopped (Raffel et al. 2017)."""

    kind: Literal["monotonic"] = "monotonic"
    noise: float = 1.0
    """Standard deviation of the noise that training adds to the scores."""
    decoding: Literal["hard", "soft"] = "hard"
    """Weights outside of training: `hard` attends to the key where the scan stops; `soft` uses the expected weights."""

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
    """A monotonic scan in which each query chooses one key. The choice has no gradient."""

    kind: Literal["hard_monotonic"] = "hard_monotonic"

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.hard_monotonic import HardMonotonic

        scorer = self.scorer.build(query_size=query_size, key_size=key_size)
        return HardMonotonic(query_size, key_size=key_size, scorer=scorer, initial_offset=self.initial_offset)


@dataclass(frozen=True, kw_only=True)
class _ChunkConfig(_ScanConfig):
    """Settings of a scan over the keys with a softmax over a chunk that ends at the key where the scan stops."""

    kind: str
    chunk_size: int = 8
    """Number of keys in a chunk, which ends at the key where the scan stops."""
    chunk_scorer: ScorerConfig = field(default_factory=WeightNormAdditiveConfig)
    """Mechanism that computes the scores within a chunk; the mechanism's normalizer is not used."""


@dataclass(frozen=True, kw_only=True)
class MoChAConfig(_ChunkConfig):
    """Expected weights of a softmax over the chunk where a monotonic scan stops (Chiu & Raffel 2018)."""

    kind: Literal["mocha"] = "mocha"
    noise: float = 1.0
    """Standard deviation of the noise that training adds to the scores of the scan."""
    decoding: Literal["hard", "soft"] = "hard"
    """Weights outside of training: `hard` attends to the chunk where the scan stops; `soft` uses the expected weights."""

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
    """A softmax over the chunk where a monotonic scan stops; the choice of the chunk has no gradient."""

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
