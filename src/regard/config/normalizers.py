"""Settings of normalizers, which turn scores into weights. The formulas are in `regard.attention.normalizers`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from regard.config.settings import NOT_NEGATIVE, POSITIVE, Family, Range

if TYPE_CHECKING:
    from regard.attention.normalizers import Normalizer


@dataclass(frozen=True, kw_only=True)
class NormalizerConfig(Family):
    """Settings of a normalizer, which turns scores into weights."""

    ranges: ClassVar[Mapping[str, Range]] = {"temperature": POSITIVE, "soft_cap": NOT_NEGATIVE}

    kind: str
    temperature: float = 1.0
    """Divisor of the scores: below 1 sharpens the weights, above 1 flattens them."""
    soft_cap: float = 0.0
    """Bound c, such as 50, of the divided scores, which become c·tanh(score / c); 0 for no bound."""

    def build(self, num_heads: int | None = None) -> "Normalizer":
        """Build the normalizer, with its temperature and bound.

        Args:
            num_heads: Number of heads of a multi-head attention, for parameters that are learned for each head; None for other
                mechanisms.
        """
        from regard.attention.normalizers import SoftCap, Temperature

        normalizer = self.build_plain(num_heads)
        if self.soft_cap:
            normalizer = SoftCap(normalizer, cap=self.soft_cap)
        return normalizer if self.temperature == 1 else Temperature(normalizer, temperature=self.temperature)

    def build_plain(self, num_heads: int | None) -> "Normalizer":
        """Build the normalizer without temperature and soft cap; by default, the one that `kind` names."""
        from regard.attention.normalizers import build_normalizer

        return build_normalizer(type(self).__name__, self.kind)


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig(NormalizerConfig):
    """exp(s_k) / Σ_j exp(s_j)."""

    kind: Literal["softmax"] = "softmax"


@dataclass(frozen=True, kw_only=True)
class SparsemaxConfig(NormalizerConfig):
    """The nearest distribution to the scores: many weights are exactly zero (Martins & Astudillo 2016)."""

    kind: Literal["sparsemax"] = "sparsemax"


@dataclass(frozen=True, kw_only=True)
class Entmax15Config(NormalizerConfig):
    """Between softmax and sparsemax: some weights are exactly zero (Peters et al. 2019)."""

    kind: Literal["entmax15"] = "entmax15"


@dataclass(frozen=True, kw_only=True)
class EntmaxConfig(NormalizerConfig):
    """Between softmax and sparsemax by α, which can be learned (Correia et al. 2019)."""

    ranges: ClassVar[Mapping[str, Range]] = {
        **NormalizerConfig.ranges,
        "alpha": Range("1.01 to 2", low=1.01, high=2),
    }

    kind: Literal["entmax"] = "entmax"
    alpha: float = 1.5
    """Value of α. The larger it is, the more weights are exactly zero: 1.01 is nearly a softmax, 2 is sparsemax."""
    learned: bool = True
    """Whether α is trained, starting from the given value; in multi-head attention, each head has its own."""

    def build_plain(self, num_heads: int | None) -> "Normalizer":
        from regard.attention.entmax import Entmax

        return Entmax(num_heads if self.learned else None, alpha=self.alpha, learned=self.learned)


@dataclass(frozen=True, kw_only=True)
class SigmoidConfig(NormalizerConfig):
    """1 / (1 + exp(−s_k)), each key on its own: weights don't sum to one."""

    kind: Literal["sigmoid"] = "sigmoid"


@dataclass(frozen=True, kw_only=True)
class SinkConfig(NormalizerConfig):
    """exp(s_k) / (exp(b) + Σ_j exp(s_j)): a query may attend to nothing (gpt-oss, 2025)."""

    kind: Literal["sink"] = "sink"
    learned: bool = True
    """Whether training changes b, which is zero at first. A multi-head attention has one b for each head."""

    def build_plain(self, num_heads: int | None) -> "Normalizer":
        from regard.attention.sink import SoftmaxSink

        return SoftmaxSink(num_heads if self.learned else None, learned=self.learned)


@dataclass(frozen=True, kw_only=True)
class SoftpickConfig(NormalizerConfig):
    """max(exp(s_k) − 1, 0) / Σ_j |exp(s_j) − 1|: keys with a score below zero get weight zero (Zuhri et al. 2025)."""

    kind: Literal["softpick"] = "softpick"


@dataclass(frozen=True, kw_only=True)
class StickBreakingConfig(NormalizerConfig):
    """σ(s_k) Π_{j>k} (1 − σ(s_j)): from the last key to the first, each takes a share of what is left (Tan et al. 2025)."""

    kind: Literal["stick_breaking"] = "stick_breaking"
