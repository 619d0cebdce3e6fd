"""Settings of normalizers, which turn attention scores into weights. The formulas are in `regard.attention.normalizers`."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le

from regard.config.fields import NotNegative, Positive
from regard.config.settings import Family

if TYPE_CHECKING:
    from regard.attention.normalizers.base import Normalizer


class NormalizerConfig(Family):
    """Settings of a normalizer, which turns attention scores into weights."""

    temperature: Positive = 1.0
    """Number by which the scores are divided: below 1 makes the weights more unequal, above 1 more equal."""
    soft_cap: NotNegative = 0.0
    """Bound c of the scores, such as 50: after the division by `temperature`, they become c·tanh(score / c); 0 for no bound."""

    def build(self, num_heads: int | None = None) -> "Normalizer":
        """Build the normalizer, with its temperature and bound.

        In an attention with several heads, each of the `num_heads` heads has its own learned parameters.
        """
        from regard.attention.normalizers.softmax import SoftCap, Temperature

        normalizer = self.build_plain(num_heads)
        if self.soft_cap:
            normalizer = SoftCap(normalizer, cap=self.soft_cap)
        return normalizer if self.temperature == 1 else Temperature(normalizer, temperature=self.temperature)

    def build_plain(self, num_heads: int | None) -> "Normalizer":
        """Build the normalizer without temperature and bound; by default, the one whose name is `kind`."""
        from regard.attention.normalizers.base import named_normalizer

        common = [each.name for each in fields(NormalizerConfig)]
        settings = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in common}
        if settings.get("learned"):
            settings["num_heads"] = num_heads
        return named_normalizer(type(self).__name__, self.kind, **settings)


class SoftmaxConfig(NormalizerConfig, kind="softmax"):
    """exp(s_k) / Σ_j exp(s_j)."""


class SparsemaxConfig(NormalizerConfig, kind="sparsemax"):
    """The probability distribution that is nearest to the scores: many weights are exactly zero (Martins & Astudillo 2016)."""


class Entmax15Config(NormalizerConfig, kind="entmax15"):
    """A function between softmax and sparsemax: some weights are exactly zero (Peters et al. 2019)."""


class EntmaxConfig(NormalizerConfig, kind="entmax"):
    """A function between softmax (α = 1) and sparsemax (α = 2); α can be learned (Correia et al. 2019)."""

    alpha: Annotated[float, Ge(1.01), Le(2)] = 1.5
    """Value of α. The larger it is, the more weights are exactly zero: 1.01 is nearly a softmax, 2 is sparsemax."""
    learned: bool = True
    """Whether to train α, starting from `alpha`. If it is trained, each head of a multi-head attention has its own α."""


class SigmoidConfig(NormalizerConfig, kind="sigmoid"):
    """1 / (1 + exp(−s_k)), for each key independently of the others: the weights don't sum to one."""


class SinkConfig(NormalizerConfig, kind="sink"):
    """exp(s_k) / (exp(b) + Σ_j exp(s_j)), a softmax with an additional score b that belongs to no key (gpt-oss, 2025)."""

    learned: bool = True
    """Whether to train the additional score b, which is zero at first. If it is trained, each head of a multi-head attention
    has its own b.
    """


class SoftpickConfig(NormalizerConfig, kind="softpick"):
    """max(exp(s_k) − 1, 0) / Σ_j |exp(s_j) − 1|: keys with a score below zero get weight zero (Zuhri et al. 2025)."""


class StickBreakingConfig(NormalizerConfig, kind="stick_breaking"):
    """σ(s_k) Π_{j>k} (1 − σ(s_j)): each key, from the last to the first, takes a share of what remains (Tan et al. 2025)."""
