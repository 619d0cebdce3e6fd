"""Settings of mechanisms with several heads, of modifiers of heads, and of rotary positions."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from annotated_types import Ge, Gt, Lt

from regard.config.attention import AttentionConfig, NormalizedSettings
from regard.config.fields import Count, Dropout, Natural, Role, Width
from regard.config.settings import Settings

if TYPE_CHECKING:
    from regard.attention.base import Attention
    from regard.attention.heads.modifiers import HeadModifier
    from regard.attention.heads.rotary import Rotary, RotaryScaling


class HeadModifiersConfig(Settings):
    """Optional changes of multi-head attention. The formulas are in `regard.attention.heads.modifiers`."""

    qk_norm: bool = False
    """Whether to divide the queries and keys of each head by their root mean square (as in Qwen3 and Gemma 3)."""
    talking_heads: bool = False
    """Whether each head mixes scores and weights of all heads, with learned matrices (Shazeer et al. 2020)."""
    output_gate: bool = False
    """Whether to multiply the contexts of the heads by gates that are computed from the query (Qiu et al. 2025)."""
    added_keys: Literal["none", "learned", "zero"] = "none"
    """Additional key and value that every query may attend to: `none`, learned vectors (`learned`), or zeros (`zero`)."""

    def build(self) -> "list[HeadModifier]":
        """Build the modifiers."""
        from regard.attention.heads.modifiers import AddedKeys, OutputGate, QKNorm, TalkingHeads

        found: list[HeadModifier] = []
        if self.qk_norm:
            found.append(QKNorm())
        if self.talking_heads:
            found.append(TalkingHeads())
        if self.output_gate:
            found.append(OutputGate())
        if self.added_keys != "none":
            learned = self.added_keys == "learned"
            found.append(AddedKeys(learned=learned, zero=not learned))
        return found


class RotaryConfig(Settings):
    """Rotary positions. The formulas are in `regard.attention.heads.rotary`."""

    base: Annotated[float, Gt(1)] = 10_000.0
    """Base of the frequencies of rotation; the slowest rotation takes up to 2π·base positions for a full turn."""
    layout: Literal["pairs", "half"] = "pairs"
    """Two features that are rotated together: neighbours (`pairs`), or one from each half of a head (`half`, as in GPT-NeoX and
    Llama).
    """
    scaling: Literal["none", "linear", "ntk", "yarn", "llama3"] = "none"
    """Method that adapts the frequencies to inputs that are longer than the training inputs."""
    scaling_factor: Annotated[float, Ge(1)] = 1.0
    """Length of the inputs divided by the length in training, for every `scaling` except `none`."""
    original_length: Count = 2048
    """Length of the training inputs in tokens, for the scalings `yarn` and `llama3`."""

    def build(self) -> "Rotary":
        """Build the module that rotates queries and keys."""
        from regard.attention.heads.rotary import LinearScaling, Llama3Scaling, NTKScaling, Rotary, YaRNScaling

        factor, length = self.scaling_factor, self.original_length
        scalings: dict[str, Callable[[], RotaryScaling]] = {
            "linear": lambda: LinearScaling(factor),
            "ntk": lambda: NTKScaling(factor),
            "yarn": lambda: YaRNScaling(factor, length),
            "llama3": lambda: Llama3Scaling(factor, length),
        }
        scaling = None if self.scaling == "none" else scalings[self.scaling]()
        return Rotary(self.base, layout=self.layout, scaling=scaling)


class HeadsConfig(AttentionConfig):
    """Settings of a mechanism with several heads, whose formula differs from that of multi-head attention.

    The context has the width of the query.
    """

    num_heads: Annotated[Natural, Role.WIDTH] = 0
    """Number of heads; 0 means `model.num_heads` in a Transformer, and 4 in other models."""

    def within(self, *, num_heads: int, dropout: float) -> Self:
        return replace(self, num_heads=self.num_heads or num_heads)

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        return replace(self, num_heads=self.num_heads or 4).construct(self.mechanism, query_size, key_size)


class LinearAttentionConfig(HeadsConfig, kind="linear_attention"):
    """Weights proportional to φ(q)·φ(k), with φ(x) = elu(x) + 1, instead of a softmax (Katharopoulos et al. 2020)."""


class GatedDeltaNetConfig(HeadsConfig, kind="gated_delta_net"):
    """A memory matrix that decays over time; each key overwrites a part of the value stored for it (Yang et al. 2025)."""


class SoftmaxHeadsConfig(HeadsConfig):
    """Settings of a mechanism with several heads, each of which computes its weights with a softmax."""

    dropout: Dropout = 0.0
    """Dropout on the attention weights; in a Transformer, 0 means `model.attention_dropout`."""

    def within(self, *, num_heads: int, dropout: float) -> Self:
        within = super().within(num_heads=num_heads, dropout=dropout)
        return replace(within, dropout=self.dropout or dropout)


class MultiHeadConfig(SoftmaxHeadsConfig, NormalizedSettings, kind="multi_head"):
    """Several heads of scaled dot products (Vaswani et al. 2017); the context has the width of the query."""

    num_kv_heads: Annotated[Natural, Role.WIDTH] = 0
    """Number of heads of the keys and values, a divisor of the number of heads; 0 for the same number."""
    head_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of a head; 0 for the width of the query divided by the number of heads."""
    heads: HeadModifiersConfig = field(default_factory=HeadModifiersConfig)
    """Modifiers of the heads."""

    def build(self, *, query_size: int, key_size: int) -> "Attention":
        from regard.attention.heads.multihead import MultiHead

        heads = self.num_heads or 4
        return MultiHead(
            query_size,
            num_heads=heads,
            num_kv_heads=self.num_kv_heads or None,
            head_size=self.head_size or None,
            modifiers=self.heads.build(),
            key_size=key_size,
            scale=self.scale or None,
            dropout=self.dropout,
            normalizer=self.normalizer.build(heads),
        )


class DifferentialAttentionConfig(SoftmaxHeadsConfig, kind="differential_attention"):
    """Heads whose weights are the difference softmax(s) − λ softmax(s') of two softmaxes (Ye et al. 2024)."""

    initial_lambda: Annotated[float, Gt(0), Lt(1)] = 0.8
    """Initial value of λ, the learned factor of the second softmax."""


class ForgettingAttentionConfig(SoftmaxHeadsConfig, kind="forgetting_attention"):
    """A softmax over scores to which the log forget gates of all later keys are added (Lin et al. 2025)."""

    initial_gate: float = 5.0
    """Initial bias of the forget gates; the larger it is, the less is forgotten at first."""


class ContextualPositionAttentionConfig(SoftmaxHeadsConfig, kind="contextual_position_attention"):
    """A softmax with contextual positions, which count the keys that matter to the query (CoPE, Golovneva et al. 2024)."""

    num_positions: Width = 64
    """Number of positions with a learned vector; all larger positions use the last vector."""


class LatentAttentionConfig(SoftmaxHeadsConfig, kind="latent_attention"):
    """Heads that compute their keys and values from one short vector per key (DeepSeek-AI 2024), without a rotary part."""

    latent_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of the short vector of each key; 0 for half the width of the query."""
    query_latent_size: Annotated[Natural, Role.WIDTH] = 0
    """Width of a short vector from which the queries of all heads are computed; 0 to compute them from the query directly."""
