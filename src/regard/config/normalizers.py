"""Settings of normalizers, which turn scores into weights. The formulas are in `regard.attention.normalizers`."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from regard.config.settings import POSITIVE, Family, Range

if TYPE_CHECKING:
    from regard.attention.normalizers import Normalizer


@dataclass(frozen=True, kw_only=True)
class NormalizerConfig(Family):
    """Settings of a normalizer, which turns scores into weights."""

    ranges: ClassVar[Mapping[str, Range]] = {"temperature": POSITIVE}

    kind: str
    temperature: float = 1.0
    """Number by which scores are divided; below 1 sharpens the weights, above 1 flattens them."""

    def build(self) -> "Normalizer":
        """Build the normalizer, with its temperature."""
        from regard.attention.normalizers import Temperature

        normalizer = self.build_plain()
        return normalizer if self.temperature == 1 else Temperature(normalizer, temperature=self.temperature)

    @abstractmethod
    def build_plain(self) -> "Normalizer":
        """Build the normalizer without its temperature."""


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig(NormalizerConfig):
    """exp(s_k) / Σ_j exp(s_j)."""

    kind: Literal["softmax"] = "softmax"

    def build_plain(self) -> "Normalizer":
        from regard.attention.normalizers import Softmax

        return Softmax()


@dataclass(frozen=True, kw_only=True)
class SparsemaxConfig(NormalizerConfig):
    """The distribution nearest to the scores; many weights are exactly zero (Martins & Astudillo 2016)."""

    kind: Literal["sparsemax"] = "sparsemax"

    def build_plain(self) -> "Normalizer":
        from regard.attention.normalizers import Sparsemax

        return Sparsemax()


@dataclass(frozen=True, kw_only=True)
class Entmax15Config(NormalizerConfig):
    """Between softmax and sparsemax; some weights are exactly zero (Peters et al. 2019)."""

    kind: Literal["entmax15"] = "entmax15"

    def build_plain(self) -> "Normalizer":
        from regard.attention.normalizers import Entmax15

        return Entmax15()


@dataclass(frozen=True, kw_only=True)
class SigmoidConfig(NormalizerConfig):
    """1 / (1 + exp(−s_k)) for each key on its own; weights don't sum to one."""

    kind: Literal["sigmoid"] = "sigmoid"

    def build_plain(self) -> "Normalizer":
        from regard.attention.normalizers import Sigmoid

        return Sigmoid()
