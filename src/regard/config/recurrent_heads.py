"""Settings of mechanisms that keep one matrix for each head in place of all keys; `config.attention` has the others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from regard.config.attention import AttentionConfig
from regard.config.settings import NOT_NEGATIVE, Range

if TYPE_CHECKING:
    from regard.attention.base import Attention


@dataclass(frozen=True, kw_only=True)
class HeadsConfig(AttentionConfig):
    """Settings of a mechanism with heads and projections of its own; the context has the width of the query."""

    ranges: ClassVar[Mapping[str, Range]] = {"num_heads": NOT_NEGATIVE}

    kind: str
    num_heads: int = 0
    """Number of heads; 0 means `model.num_heads` in a Transformer, and 4 in other models."""

    def within(self, *, num_heads: int, dropout: float) -> Self:
        return replace(self, num_heads=self.num_heads or num_heads)


@dataclass(frozen=True, kw_only=True)
class LinearAttentionConfig(HeadsConfig):
    """φ(q)·φ(k) with φ(x) = elu(x) + 1 in place of a softmax (Katharopoulos et al. 2020)."""

    kind: Literal["linear_attention"] = "linear_attention"

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.linear_attention import LinearAttention

        return LinearAttention(query_size, self.num_heads or 4, key_size=key_size)


@dataclass(frozen=True, kw_only=True)
class GatedDeltaNetConfig(HeadsConfig):
    """A matrix that each key overwrites in part, and that fades (Yang et al. 2025)."""

    kind: Literal["gated_delta_net"] = "gated_delta_net"

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.gated_delta import GatedDeltaNet

        return GatedDeltaNet(query_size, self.num_heads or 4, key_size=key_size)
