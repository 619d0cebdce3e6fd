"""Builders of a Transformer's parts, layers and stacks from a few settings."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention import Attention, HeadModifier, MultiHead, RelativePositions, Softmax
from regard.layers.causal import CausalDecoder, CausalLayer
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.layers.transformer import DecoderLayer, EncoderLayer, TransformerDecoder, TransformerEncoder


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """Settings that all layers of a stack share."""

    size: int
    """Width D."""
    num_heads: int
    feed_forward_size: int
    feed_forward: Literal["relu", "gelu", "swiglu"] = "relu"
    norm: Literal["layer", "rms"] = "layer"
    order: Literal["pre", "post", "deep"] = "post"
    """Position of the norms: before each part (`pre`), after it (`post`), or after it with DeepNet's scales (`deep`)."""
    build_positions: Callable[[], RelativePositions | None] = lambda: None
    """Function that builds the relative positions of self-attention, such as `Rotary`; it returns None to use none."""
    dropout: float = 0.0
    """Dropout on the output of each part."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward part."""
    attention_dropout: float = 0.0
    """Dropout of attention weights."""
    build_normalizer: Callable[[int], nn.Module] = lambda num_heads: Softmax()
    """Function that builds the normalizer of self-attention from the number of heads."""
    build_modifiers: Callable[..., Sequence[HeadModifier]] = lambda **sizes: ()
    """Function that builds the modifiers of self-attention. It gets the arguments of `HeadModifiersConfig.build`, by name."""
    build_cross_attention: Callable[[int], Attention] | None = None
    """Function that builds the attention to another sequence, such as the source of a decoder, from the width D. It should not
    use positions, because the positions of two sequences are unrelated. None for a `MultiHead` with as many heads as
    self-attention.
    """

    def build_norm(self) -> nn.Module:
        """Return a new norm for features of width D."""
        return nn.LayerNorm(self.size) if self.norm == "layer" else nn.RMSNorm(self.size, eps=1e-6)

    def build_residual(self, scale: float) -> Residual:
        """Return the residual connection of a part; the order `deep` uses `scale` as the factor α of `PostNorm`."""
        match self.order:
            case "pre":
                return PreNorm(self.build_norm(), dropout=self.dropout)
            case "post":
                return PostNorm(self.build_norm(), dropout=self.dropout)
            case "deep":
                return PostNorm(self.build_norm(), dropout=self.dropout, scale=scale)

    def build_feed_forward(self) -> nn.Module:
        """Return the feed-forward part."""
        hidden, dropout = self.feed_forward_size, self.activation_dropout
        match self.feed_forward:
            case "relu":
                return FeedForward(self.size, activation=nn.ReLU(), hidden_size=hidden, dropout=dropout)
            case "gelu":
                return FeedForward(self.size, activation=nn.GELU(), hidden_size=hidden, dropout=dropout)
            case "swiglu":
                return GatedFeedForward(self.size, activation=nn.SiLU(), hidden_size=hidden, dropout=dropout)

    def build_attention(self, *, causal: bool = False) -> MultiHead:
        """Build self-attention."""
        heads, width = self.num_heads, self.size // self.num_heads
        modifiers = self.build_modifiers(num_heads=heads, num_kv_heads=heads, head_size=width, query_size=self.size)
        return MultiHead(
            self.size,
            num_heads=self.num_heads,
            dropout=self.attention_dropout,
            causal=causal,
            positions=self.build_positions(),
            modifiers=modifiers,
            normalizer=self.build_normalizer(self.num_heads),
        )

    def build_across(self) -> Attention:
        """Build attention to another sequence."""
        if self.build_cross_attention is not None:
            return self.build_cross_attention(self.size)
        return MultiHead(self.size, num_heads=self.num_heads, dropout=self.attention_dropout)


def build_encoder(blueprint: Blueprint, *, num_layers: int, decoder_layers: int = 0) -> TransformerEncoder:
    """Return a stack of encoder layers.

    With the order `deep`, the residual stream is multiplied by α before the output of a part is added to it. The initial
    weights of the maps to values, of the output maps, and of the feed-forward parts are multiplied by β. For an encoder of L
    layers without a decoder, α = (2L)^¼ and β = (8L)^−¼; with a decoder of M layers, α = 0.81·(L⁴M)^(1/16) and
    β = 0.87·(L⁴M)^(−1/16).

    Args:
        blueprint: The settings that all layers share.
        num_layers: L, number of layers, ≥ 1.
        decoder_layers: M, number of the decoder's layers; 0 for an encoder without a decoder.

    Reference: Wang et al. 2022 (DeepNet), table in figure 2.
    """
    alpha, beta = (2 * num_layers) ** 0.25, (8 * num_layers) ** -0.25
    if decoder_layers:
        both = (num_layers**4 * decoder_layers) ** (1 / 16)
        alpha, beta = 0.81 * both, 0.87 / both
    layers = [
        EncoderLayer(
            attention=blueprint.build_attention(),
            attention_residual=blueprint.build_residual(alpha),
            feed_forward=blueprint.build_feed_forward(),
            feed_forward_residual=blueprint.build_residual(alpha),
        )
        for _ in range(num_layers)
    ]
    start_layers(layers, blueprint, beta)
    return TransformerEncoder(layers, norm=blueprint.build_norm() if blueprint.order == "pre" else None)


def build_decoder(blueprint: Blueprint, *, num_layers: int) -> TransformerDecoder:
    """Return a stack of M = `num_layers` decoder layers, which attend to the states of an encoder.

    With the order `deep`, the factors α and β, explained at `build_encoder`, are α = (3M)^¼ and β = (12M)^−¼.

    Reference: as for `build_encoder`.
    """
    alpha, beta = (3 * num_layers) ** 0.25, (12 * num_layers) ** -0.25
    layers = [
        DecoderLayer(
            self_attention=blueprint.build_attention(causal=True),
            self_residual=blueprint.build_residual(alpha),
            cross_attention=blueprint.build_across(),
            cross_residual=blueprint.build_residual(alpha),
            feed_forward=blueprint.build_feed_forward(),
            feed_forward_residual=blueprint.build_residual(alpha),
        )
        for _ in range(num_layers)
    ]
    start_layers(layers, blueprint, beta)
    return TransformerDecoder(layers, norm=blueprint.build_norm() if blueprint.order == "pre" else None)


def build_causal(blueprint: Blueprint, *, num_layers: int) -> CausalDecoder:
    """Return a stack of L = `num_layers` causal layers.

    With the order `deep`, the factors α and β, explained at `build_encoder`, are α = (2L)^¼ and β = (8L)^−¼.

    Reference: as for `build_encoder`.
    """
    alpha, beta = (2 * num_layers) ** 0.25, (8 * num_layers) ** -0.25
    layers = [
        CausalLayer(
            attention=blueprint.build_attention(causal=True),
            attention_residual=blueprint.build_residual(alpha),
            feed_forward=blueprint.build_feed_forward(),
            feed_forward_residual=blueprint.build_residual(alpha),
        )
        for _ in range(num_layers)
    ]
    start_layers(layers, blueprint, beta)
    return CausalDecoder(layers, norm=blueprint.build_norm() if blueprint.order == "pre" else None)


def start_layers(layers: Sequence[nn.Module], blueprint: Blueprint, gain: float) -> None:
    """Scale the initial weights in the layers of a stack, as the order of their norms requires.

    Only parts of the types `MultiHead`, `FeedForward` and `GatedFeedForward` are scaled. Order `deep`: the weights of value,
    output and feed-forward maps are multiplied by β = `gain`. Order `pre`: the weights of the last map of each such part are
    divided by √P, for P such parts in the stack, so that a deeper stack does not have a larger variance in the residual stream.
    Order `post`: the weights, drawn by Xavier's method, stay unchanged. Only `deep` uses `gain`.

    Reference: Wang et al. 2022 (DeepNet), section 3; Radford et al. 2019 (GPT-2), section 2.3.
    """
    attentions = [part for layer in layers for part in layer.modules() if type(part) is MultiHead]
    forwards = [part for layer in layers for part in layer.modules() if isinstance(part, FeedForward | GatedFeedForward)]
    match blueprint.order:
        case "deep":
            scaled = [linear for part in attentions for linear in (part.value_projection, part.output_projection)]
            scaled += [linear for part in forwards for linear in part.modules() if isinstance(linear, nn.Linear)]
        case "pre":
            gain = 1 / math.sqrt(len(attentions) + len(forwards))
            scaled = [part.output_projection for part in attentions] + [part.outer for part in forwards]
        case "post":
            return
    for linear in scaled:
        linear.weight.data.mul_(gain)
