"""Build the layers of a Transformer, and a translator, from their settings, with random initial weights."""

import math
from collections.abc import Sequence
from typing import Any, cast

from torch import nn

from regard.attention import MultiHead
from regard.config import LanguageModelConfig, PretrainedSourceConfig, TransformerConfig
from regard.config.classifier import TransformerEncoderSettings
from regard.errors import ConfigError
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.positions import build_positions
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.layers.transformer import (
    CausalLayer,
    DecoderLayer,
    EncoderLayer,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.models.embeddings import build_embedding, tie_embeddings
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.pretrained import PretrainedTextEncoder
from regard.models.sources import PretrainedEmbedding, PretrainedSource, PretrainedTransformer
from regard.models.transformer.translator import TransformerTranslator

LayerConfig = TransformerConfig | LanguageModelConfig | TransformerEncoderSettings
"""Settings of Transformers, all of which have layers of the same kind."""


def build_transformer(
    config: TransformerConfig,
    *,
    source_size: int,
    target_size: int,
    encoder_ids: Sequence[int] = (),
    pretrained: PretrainedSource | None = None,
) -> TransformerTranslator:
    """Build the model, with initial weights from PyTorch's random generator; see `build_translator`.

    `pretrained`, an encoder of images, replaces the layers that read the source.
    """
    size, tie = config.hidden_size, config.tie_embeddings
    for _, message in config.wait_conflicts():
        raise ConfigError(message)
    if isinstance(config.encoder, PretrainedSourceConfig):
        pretrained = PretrainedSource(PretrainedTextEncoder(config.encoder, encoder_ids), size)
    kind = PretrainedTransformer if pretrained else TransformerTranslator
    source: Any = pretrained and PretrainedEmbedding(pretrained)
    source = source or build_embedding(source_size, size, std=initial_std(size, tied=tie == "all"))
    target = build_embedding(target_size, size, std=initial_std(size, tied=tie != "none"))
    output = nn.Linear(size, target_size, bias=config.output_bias)
    nn.init.xavier_uniform_(output.weight)
    tie_embeddings(tie, source=source, target=target, output=output)
    encoder: Any = pretrained
    return kind(
        source_embedding=source,
        target_embedding=target,
        source_positions=nn.Identity() if pretrained else build_positions(config.positions, size),
        target_positions=build_positions(config.positions, size),
        encoder=encoder
        or build_encoder(
            config,
            num_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            causal=config.wait_k > 0,
        ),
        decoder=build_decoder(config),
        output=output,
        embedding_dropout=config.embedding_dropout,
        alignment_layer=None if config.alignment_layer < 0 else config.alignment_layer,
        alignment_head=None if config.alignment_head < 0 else config.alignment_head,
        wait_k=config.wait_k,
    )


def build_transformer_language_model(config: LanguageModelConfig, *, vocabulary_size: int) -> TransformerLanguageModel:
    """Build the model, with initial weights from PyTorch's random generator; see `build_language_model`."""
    size = config.hidden_size
    embedding = build_embedding(vocabulary_size, size, std=initial_std(size, tied=config.tie_embeddings))
    output = nn.Linear(size, vocabulary_size, bias=config.output_bias)
    nn.init.xavier_uniform_(output.weight)
    if config.tie_embeddings:
        output.weight = embedding.weight
    return TransformerLanguageModel(
        embedding=embedding,
        positions=build_positions(config.positions, size),
        decoder=build_causal(config),
        output=output,
        embedding_dropout=config.embedding_dropout,
    )


def initial_std(size: int, *, tied: bool) -> float:
    """Return the standard deviation of initial embeddings of width D: D^-½, or D^-¾ if they are also the output layer."""
    # The features of a decoder resemble the embedding of the word that it has just read. With D^-½, a tied output layer gives
    # this word a score of about √D, which is more than ln V for a vocabulary of V words, so an untrained model is certain that
    # every word is repeated. With D^-¾ the score is D^¼, which is small compared with ln V for every usual width.
    return size**-0.75 if tied else size**-0.5


def build_encoder(config: LayerConfig, *, num_layers: int, decoder_layers: int = 0, causal: bool = False) -> TransformerEncoder:
    """Return a stack of encoder layers.

    With the order `deep`, the residual stream is multiplied by α before the output of a part is added to it. The initial
    weights of the maps to values, of the output maps, and of the feed-forward parts are multiplied by β. For a stack of L
    layers without another one, α = (2L)^¼ and β = (8L)^−¼; for an encoder of L layers with a decoder of M layers,
    α = 0.81·(L⁴M)^(1/16) and β = 0.87·(L⁴M)^(−1/16); for this decoder, α = (3M)^¼ and β = (12M)^−¼.

    Args:
        config: Settings of the model.
        num_layers: L, number of layers, ≥ 1.
        decoder_layers: M, number of the decoder's layers; 0 for an encoder without a decoder.
        causal: Whether a token attends only to itself and to earlier tokens.

    Reference: Wang et al. 2022 (DeepNet), table in figure 2.
    """
    alpha, beta = (2 * num_layers) ** 0.25, (8 * num_layers) ** -0.25
    if decoder_layers:
        both = (num_layers**4 * decoder_layers) ** (1 / 16)
        alpha, beta = 0.81 * both, 0.87 / both
    layers = [EncoderLayer(**_build_parts(config, alpha, causal=causal)) for _ in range(num_layers)]
    scale_initial_weights(layers, config.norm_order, beta)
    return TransformerEncoder(layers, norm=_last_norm(config))


def build_decoder(config: TransformerConfig) -> TransformerDecoder:
    """Return the stack of decoder layers; see `build_encoder` for its scales."""
    size, count = config.hidden_size, config.decoder_layers
    alpha, beta = (3 * count) ** 0.25, (12 * count) ** -0.25
    across = config.cross_attention.within(num_heads=config.num_heads, dropout=config.attention_dropout)
    layers = [
        DecoderLayer(
            self_attention=build_self_attention(config, causal=True),
            self_residual=build_residual(config, alpha),
            cross_attention=across.build(query_size=size, key_size=size),
            cross_residual=build_residual(config, alpha),
            feed_forward=build_feed_forward(config),
            feed_forward_residual=build_residual(config, alpha),
        )
        for _ in range(count)
    ]
    scale_initial_weights(layers, config.norm_order, beta)
    return TransformerDecoder(layers, norm=_last_norm(config))


def build_causal(config: LanguageModelConfig) -> TransformerDecoder:
    """Return the stack of layers of a decoder without a source; see `build_encoder` for its scales."""
    count = config.num_layers
    alpha, beta = (2 * count) ** 0.25, (8 * count) ** -0.25
    layers = [CausalLayer(**_build_parts(config, alpha, causal=True)) for _ in range(count)]
    scale_initial_weights(layers, config.norm_order, beta)
    return TransformerDecoder(layers, norm=_last_norm(config))


def _build_parts(config: LayerConfig, alpha: float, *, causal: bool = False) -> dict[str, Any]:
    """Return the arguments of a layer without attention to a source."""
    return {
        "attention": build_self_attention(config, causal=causal),
        "attention_residual": build_residual(config, alpha),
        "feed_forward": build_feed_forward(config),
        "feed_forward_residual": build_residual(config, alpha),
    }


def build_self_attention(config: LayerConfig, *, causal: bool = False) -> MultiHead:
    """Return the self-attention of a layer."""
    size, heads = config.hidden_size, config.num_heads
    return MultiHead(
        size,
        num_heads=heads,
        dropout=config.attention_dropout,
        causal=causal,
        positions=config.rotary.build() if config.positions == "rotary" else None,
        modifiers=config.heads.build(),
        normalizer=config.normalizer.build(heads),
    )


def build_feed_forward(config: LayerConfig) -> FeedForward | GatedFeedForward:
    """Return the feed-forward part of a layer."""
    kind = GatedFeedForward if config.feed_forward == "swiglu" else FeedForward
    activation = {"relu": nn.ReLU, "gelu": nn.GELU, "swiglu": nn.SiLU}[config.feed_forward]
    hidden, dropout = config.feed_forward_size, config.activation_dropout
    return kind(config.hidden_size, activation=activation(), hidden_size=hidden, dropout=dropout)


def build_norm(config: LayerConfig) -> nn.Module:
    """Return a norm."""
    size = config.hidden_size
    return nn.LayerNorm(size) if config.norm == "layer" else nn.RMSNorm(size, eps=1e-6)


def build_residual(config: LayerConfig, scale: float) -> Residual:
    """Return the residual connection of a part; the order `deep` uses `scale` as the factor α of `PostNorm`."""
    norm, dropout = build_norm(config), config.layer_dropout
    if config.norm_order == "pre":
        return PreNorm(norm, dropout=dropout)
    return PostNorm(norm, dropout=dropout, scale=scale if config.norm_order == "deep" else 1.0)


def _last_norm(config: LayerConfig) -> nn.Module | None:
    """Return the norm at the end of a stack, which layers with the order `pre` need."""
    return build_norm(config) if config.norm_order == "pre" else None


def scale_initial_weights(layers: Sequence[nn.Module], order: str, gain: float) -> None:
    """Scale the initial weights in the layers of a stack, as the order of their norms requires.

    Only parts of the types `MultiHead`, `FeedForward` and `GatedFeedForward` are scaled. Order `deep`: the weights of value,
    output and feed-forward maps are multiplied by β = `gain`. Order `pre`: the weights of the last map of each such part are
    divided by √P, for P such parts in the stack, so that a deeper stack does not have a larger variance in the residual stream.
    Order `post`: the weights, drawn by Xavier's method, stay unchanged. Only `deep` uses `gain`.

    Reference: Wang et al. 2022 (DeepNet), section 3; Radford et al. 2019 (GPT-2), section 2.3.
    """
    attentions = [part for layer in layers for part in layer.modules() if type(part) is MultiHead]
    forwards = [part for layer in layers for part in layer.modules() if isinstance(part, FeedForward | GatedFeedForward)]
    scaled: Sequence[nn.Module] = ()
    if order == "deep":
        maps = [linear for part in attentions for linear in (part.value_projection, part.output_projection)]
        scaled = maps + [linear for part in forwards for linear in part.modules() if isinstance(linear, nn.Linear)]
    elif order == "pre":
        gain = 1 / math.sqrt(len(attentions) + len(forwards))
        scaled = [part.output_projection for part in attentions] + [part.outer for part in forwards]
    for linear in scaled:
        cast(nn.Linear, linear).weight.data.mul_(gain)
