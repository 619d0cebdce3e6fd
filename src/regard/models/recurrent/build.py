"""Build a recurrent translator from its configuration."""

from inspect import signature

import torch
from torch import nn

from regard.attention.base import Attention
from regard.config import BahdanauDecoderConfig, DecoderConfig, LuongDecoderConfig, RecurrentConfig
from regard.errors import ConfigError
from regard.layers.readout import AttentionalReadout, ConcatReadout, DeepReadout, OutputReadout, Readout
from regard.models.recurrent.decoder import BahdanauDecoder, InputFeedingDecoder, LuongDecoder, RecurrentDecoder
from regard.models.recurrent.encoder import Bridge, CopyBridge, LinearBridge, MeanBridge, RecurrentEncoder, ZerosBridge
from regard.models.recurrent.translator import RecurrentTranslator, check_tying
from regard.text.symbols import PAD


def build_recurrent(
    config: RecurrentConfig, *, source_size: int, target_size: int, attention: Attention | None = None
) -> RecurrentTranslator:
    """Build the model, with initial weights from PyTorch's random generator.

    Args:
        config: Settings of the model.
        source_size: Number of words in the source's vocabulary.
        target_size: Number of words in the target's vocabulary.
        attention: The caller's own mechanism, which replaces the configured one.

    Raises:
        ConfigError: If sizes do not match, or `attention` is not a mechanism.
    """
    encoder = RecurrentEncoder(config.encoder, embedding_size=config.embedding_size)
    decoder_config = config.decoder
    if attention is None:
        attention = decoder_config.attention.build(query_size=decoder_config.hidden_size, key_size=encoder.size)
    else:
        check_attention(attention, query_size=decoder_config.hidden_size, key_size=encoder.size)
    std = config.embedding_std or config.embedding_size**-0.5
    source, target = (build_embedding(size, config.embedding_size, std=std) for size in (source_size, target_size))
    context_size = attention.context_size(encoder.size)
    decoder = build_decoder(decoder_config, attention, embedding_size=config.embedding_size, context_size=context_size)
    output = nn.Linear(decoder.readout.size, target_size)
    check_tying(source, target, decoder.readout.size, config.tie_embeddings)
    if config.tie_embeddings != "none":
        output.weight = target.weight
    if config.tie_embeddings == "all":
        source.weight = target.weight
    return RecurrentTranslator(
        source_embedding=source,
        encoder=encoder,
        bridge=build_bridge(config, encoder),
        target_embedding=target,
        decoder=decoder,
        output=output,
        embedding_dropout=decoder_config.embedding_dropout,
        readout_dropout=decoder_config.readout_dropout,
    )


def check_attention(attention: Attention, *, query_size: int, key_size: int) -> None:
    """Check that the caller's own object is a mechanism, and that the widths it declares are those of its queries and keys.

    Raises:
        ConfigError: If it lacks methods of an `Attention`, or one of its `query_size`, `key_size` and `value_size` differs.
    """
    name = type(attention).__name__
    if isinstance(attention, type) or not all(hasattr(attention, method) for method in ("prepare", "attend", "context_size")):
        given = f"the class {attention.__name__}" if isinstance(attention, type) else f"of type {name}"
        raise ConfigError(
            f"attention is {given}, expected an object of a class in regard.attention, such as Additive({query_size}, "
            f"key_size={key_size}), or of your own subclass of Attention"
        )
    arguments = signature(type(attention)).parameters
    for size, width, part in (
        ("query_size", query_size, "decoder"),
        ("key_size", key_size, "encoder"),
        ("value_size", key_size, "encoder"),
    ):
        own = getattr(attention, size, None)
        if isinstance(own, int) and own != width:
            argument = "size" if size == "query_size" and size not in arguments else size
            remedy = (
                f"build it with {argument}={width}"
                if argument in arguments and not getattr(attention, "equal_widths", False)
                else f"{name} cannot have this width; use a mechanism for two widths, such as General, Additive or MultiHead"
            )
            raise ConfigError(f"attention ({name}) has {size}={own}, but the {part}'s states are {width} wide: {remedy}")


def build_embedding(size: int, width: int, *, std: float) -> nn.Embedding:
    """Return word embeddings drawn from a normal distribution, with zeros for padding."""
    embedding = nn.Embedding(size, width, padding_idx=PAD)
    with torch.no_grad():
        embedding.weight.normal_(0, std)[PAD] = 0
    return embedding


def build_decoder(config: DecoderConfig, attention: Attention, *, embedding_size: int, context_size: int) -> RecurrentDecoder:
    """Return the decoder with the configured order of attention and cell."""
    readout = build_readout(config, embedding_size=embedding_size, context_size=context_size)
    kind: type[RecurrentDecoder]
    match config:
        case BahdanauDecoderConfig():
            kind, input_size = BahdanauDecoder, embedding_size + context_size
        case LuongDecoderConfig(input_feeding=True):
            kind, input_size = InputFeedingDecoder, embedding_size + readout.size
        case LuongDecoderConfig():
            kind, input_size = LuongDecoder, embedding_size
    return kind(
        input_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        cell=config.cell,
        attention=attention,
        readout=readout,
        layer_dropout=config.layer_dropout,
    )


def build_readout(config: DecoderConfig, *, embedding_size: int, context_size: int) -> Readout:
    """Return the configured readout.

    Readouts with maps of their own (`attentional` and `deep`) have the width of the embedding, so that the output layer can
    share the weight of the embedding.
    """
    hidden = config.hidden_size
    match config.readout:
        case "output":
            return OutputReadout(hidden)
        case "concat":
            return ConcatReadout(hidden, context_size=context_size)
        case "attentional":
            return AttentionalReadout(hidden, context_size=context_size, size=embedding_size)
        case "deep":
            return DeepReadout(hidden, context_size=context_size, embedding_size=embedding_size, size=embedding_size)


def build_bridge(config: RecurrentConfig, encoder: RecurrentEncoder) -> Bridge:
    """Return the configured bridge.

    Raises:
        ConfigError: If `copy` is chosen, and the states of encoder and decoder differ in width.
    """
    hidden, layers, lstm = config.decoder.hidden_size, config.decoder.num_layers, config.decoder.cell == "lstm"
    match config.bridge:
        case "zeros":
            return ZerosBridge(hidden, num_layers=layers, lstm=lstm)
        case "copy":
            if encoder.size != hidden:
                raise ConfigError(
                    f"bridge: copy starts the decoder ({hidden} wide) from the encoder's last state ({encoder.size} wide): "
                    "make model.decoder.hidden_size equal to model.encoder.hidden_size (twice that width if the "
                    "encoder is bidirectional), or set model.bridge to linear"
                )
            return CopyBridge(num_layers=layers, lstm=lstm)
        case "linear":
            return LinearBridge(encoder.size, hidden_size=hidden, num_layers=layers, lstm=lstm)
        case "mean":
            return MeanBridge(encoder.size, hidden_size=hidden, num_layers=layers, lstm=lstm)
