"""Build a Transformer from its configuration."""

from dataclasses import replace

from torch import nn

from regard.config import LanguageModelConfig, TransformerConfig
from regard.layers.positions import build_positions
from regard.layers.transformer_build import Blueprint, build_decoder, build_encoder
from regard.models.recurrent.build import build_embedding
from regard.models.recurrent.translator import check_tying
from regard.models.transformer.translator import TransformerTranslator


def build_transformer(config: TransformerConfig, *, source_size: int, target_size: int) -> TransformerTranslator:
    """Build the model, with initial weights from PyTorch's random generator.

    Args:
        config: Settings of the model.
        source_size: Number of words in the source's vocabulary.
        target_size: Number of words in the target's vocabulary.

    Raises:
        ConfigError: If sizes do not match, or the decoder does not have the alignment layer or head.
    """
    size = config.hidden_size
    across = config.cross_attention.within(num_heads=config.num_heads, dropout=config.attention_dropout)
    blueprint = replace(
        build_blueprint(config), build_cross_attention=lambda width: across.build(query_size=width, key_size=width)
    )
    tied = {"source": config.tie_embeddings == "all", "target": config.tie_embeddings != "none"}
    source = build_embedding(source_size, size, std=initial_std(size, tied=tied["source"]))
    target = build_embedding(target_size, size, std=initial_std(size, tied=tied["target"]))
    output = nn.Linear(size, target_size, bias=config.output_bias)
    nn.init.xavier_uniform_(output.weight)
    check_tying(source, target, size, config.tie_embeddings)
    if config.tie_embeddings != "none":
        output.weight = target.weight
    if config.tie_embeddings == "all":
        source.weight = target.weight
    return TransformerTranslator(
        source_embedding=source,
        target_embedding=target,
        source_positions=build_positions(config.positions, config.hidden_size),
        target_positions=build_positions(config.positions, config.hidden_size),
        encoder=build_encoder(blueprint, num_layers=config.encoder_layers, decoder_layers=config.decoder_layers),
        decoder=build_decoder(blueprint, num_layers=config.decoder_layers),
        output=output,
        embedding_dropout=config.embedding_dropout,
        alignment_layer=None if config.alignment_layer < 0 else config.alignment_layer,
        alignment_head=None if config.alignment_head < 0 else config.alignment_head,
    )


def initial_std(size: int, *, tied: bool) -> float:
    """Return the standard deviation of initial embeddings of width D: D^-½, or D^-¾ if they are also the output layer.

    The features of a decoder resemble the embedding of the word that it has just read. With D^-½, a tied output layer gives
    this word a score of about √D, which is more than ln V for a vocabulary of V words, so an untrained model is certain that
    every word is repeated. With D^-¾ the score is D^¼, which is small compared with ln V for every usual width.

    Args:
        size: D.
        tied: Whether the output layer is the embedding.
    """
    return size**-0.75 if tied else size**-0.5


def build_blueprint(config: TransformerConfig | LanguageModelConfig) -> Blueprint:
    """Return the settings that all layers of the configured model share."""
    return Blueprint(
        size=config.hidden_size,
        num_heads=config.num_heads,
        feed_forward_size=config.feed_forward_size,
        feed_forward=config.feed_forward,
        norm=config.norm,
        order=config.norm_order,
        build_positions=config.rotary.build if config.positions == "rotary" else lambda: None,
        dropout=config.layer_dropout,
        activation_dropout=config.activation_dropout,
        attention_dropout=config.attention_dropout,
        build_normalizer=config.normalizer.build,
        build_modifiers=config.heads.build,
    )
