"""Build a recurrent translator from its configuration."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from regard.attention.base import Attention
from regard.attention.ordered.monotonic import HardMonotonic, SoftToHard
from regard.config import BahdanauDecoderConfig, LuongDecoderConfig, PretrainedSourceConfig, RecurrentConfig
from regard.config.model import RecurrentSettings
from regard.errors import ConfigError
from regard.layers.readout import READOUTS
from regard.models.embeddings import build_embedding, tie_embeddings
from regard.models.policies import HardStops, Policy, build_wait
from regard.models.pretrained import PretrainedTextEncoder
from regard.models.recurrent.decoder import BahdanauDecoder, InputFeedingDecoder, LuongDecoder, RecurrentDecoder
from regard.models.recurrent.encoder import BRIDGES, RecurrentEncoder
from regard.models.recurrent.translator import RecurrentTranslator
from regard.models.sources import PretrainedEmbedding, RecurrentSource


def build_recurrent(
    config: RecurrentConfig,
    *,
    source_size: int,
    target_size: int,
    attention: Attention | None = None,
    encoder_ids: Sequence[int] = (),
) -> RecurrentTranslator:
    """Build the model, with initial weights from PyTorch's random generator; see `build_translator` for the arguments."""
    for _, message in config.wait_conflicts():
        raise ConfigError(message)
    width, std = config.embedding_size, config.embedding_std or config.embedding_size**-0.5
    build_source: Callable[[], nn.Module]
    if isinstance(config.encoder, PretrainedSourceConfig):
        encoder: Any = RecurrentSource(PretrainedTextEncoder(config.encoder, encoder_ids), config.states_size)
        build_source = partial(PretrainedEmbedding, encoder)
    else:
        encoder = RecurrentEncoder(config.encoder, embedding_size=width)
        build_source = partial(build_embedding, source_size, width, std=std)
    model = build_around(encoder, build_source, config, target_size=target_size, attention=attention)
    source: Any = model.source_embedding
    tie_embeddings(config.tie_embeddings, source=source, target=model.target_embedding, output=model.output)
    return model


def build_around(
    encoder: Any,
    build_source: Callable[[], nn.Module],
    config: RecurrentSettings,
    *,
    target_size: int,
    attention: Attention | None = None,
) -> RecurrentTranslator:
    """Build a model that writes words with a recurrent decoder about the states of an encoder.

    Args:
        encoder: Module that returns states of width `encoder.size` and the last states, as `RecurrentEncoder` does.
        build_source: Function that builds the module whose output the encoder reads; it is called after the attention is
            built, which keeps the order of random numbers.
        config: Settings of the bridge and of the decoder.
        target_size: Number of words in the target's vocabulary.
        attention: The caller's own mechanism; None for the configured one.
    """
    settings, width = config.decoder, config.embedding_size
    hidden_size = settings.hidden_size
    if attention is None:
        attention = settings.attention.build(query_size=hidden_size, key_size=encoder.size)
    else:
        check_attention(attention, query_size=hidden_size, key_size=encoder.size)
    source, target = build_source(), build_embedding(target_size, width, std=config.embedding_std or width**-0.5)
    context_size = attention.context_size(encoder.size)
    readout = READOUTS[settings.readout](hidden_size, context_size=context_size, embedding_size=width)
    kind: type[RecurrentDecoder]
    match settings:
        case BahdanauDecoderConfig():
            kind, fed_size = BahdanauDecoder, context_size
        case LuongDecoderConfig(input_feeding=True):
            kind, fed_size = InputFeedingDecoder, readout.size
        case LuongDecoderConfig():
            kind, fed_size = LuongDecoder, 0
    return RecurrentTranslator(
        source_embedding=source,
        encoder=encoder,
        target_embedding=target,
        decoder=kind(settings, input_size=width + fed_size, attention=attention, readout=readout),
        output=nn.Linear(readout.size, target_size),
        bridge=BRIDGES[config.bridge](encoder.size, settings),
        embedding_dropout=settings.embedding_dropout,
        readout_dropout=settings.readout_dropout,
        policy=_find_policy(config, attention),
    )


def _find_policy(config: RecurrentSettings, attention: Attention) -> Policy | None:
    """Return the policy for reading the source; None if the whole source is read first."""
    if not isinstance(config, RecurrentConfig) or config.encoder.bidirectional:
        return None
    if config.wait_k:
        return build_wait(config.wait_k, [attention])
    stops = isinstance(attention, SoftToHard | HardMonotonic) and config.bridge == "zeros"
    return HardStops() if stops else None


def check_attention(attention: Attention, *, query_size: int, key_size: int) -> None:
    """Check that the caller's own object is a mechanism, and that the widths it declares are those of its queries and keys."""
    name = type(attention).__name__
    if isinstance(attention, type) or not all(hasattr(attention, method) for method in ("prepare", "attend", "context_size")):
        given = f"the class {attention.__name__}" if isinstance(attention, type) else f"of type {name}"
        raise ConfigError(
            f"attention is {given}, expected an object of a class in regard.attention, such as Additive({query_size}, "
            f"key_size={key_size}), or of your own subclass of Attention"
        )
    for size, width, part in (
        ("query_size", query_size, "decoder"),
        ("key_size", key_size, "encoder"),
        ("value_size", key_size, "encoder"),
    ):
        # Mechanisms without such an attribute accept any width, or fail with a message of their own.
        own = getattr(attention, size, None)
        if isinstance(own, int) and own != width:
            argument = "size" if size == "query_size" and hasattr(attention, "size") else size
            raise ConfigError(
                f"attention ({name}) has {size}={own}, but the {part}'s states are {width} wide: build it with "
                f"{argument}={width}, or use a mechanism for two widths, such as General, Additive or MultiHead"
            )
