"""Check the ranges of numeric settings, and settings that can be in conflict with each other."""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from encodings.aliases import aliases
from typing import Any, Protocol

from regard.config.settings import ANY, BELOW_ONE, COUNT, FEW, NOT_NEGATIVE, POSITIVE, Family, Range, Settings
from regard.config.training import TrainingConfig
from regard.errors import ConfigError, nearest

_LARGEST = 1e9
"""Largest absolute value of a number whose range has no upper bound; larger numbers would overflow."""
_AT_MOST = f", and at most {_LARGEST:,.0f}"
_PROBABILITY = Range("from 0 to 1", high=1)
_INSIDE = Range("more than 0 and less than 1", high=1, open_low=True, open_high=True)

_MOST_L2 = 0.05
"""Largest weight decay for `adam`. With 0.1, a Transformer learns nothing except the frequencies of words."""

_RANGES = {
    **dict.fromkeys(
        (
            *("hidden_size", "embedding_size", "feed_forward_size", "num_heads", "num_buckets"),
            *("max_epochs", "accumulate", "groups", "max_sentence", "min_count", "fold", "original_length"),
        ),
        COUNT,
    ),
    **dict.fromkeys(
        (
            *("word_dropout", "embedding_dropout", "layer_dropout", "activation_dropout", "attention_dropout"),
            *("output_dropout", "readout_dropout"),
        ),
        BELOW_ONE,
    ),
    **dict.fromkeys(
        ("num_layers", "encoder_layers", "decoder_layers", "num_recurrent", "max_ngram", "beam_size", "words"), FEW
    ),
    **dict.fromkeys(("label_smoothing", "ema_decay", "betas"), BELOW_ONE),
    **dict.fromkeys(("start", "end", "final"), _PROBABILITY),
    "max_tokens": Range("from 1 to 65536", low=1, high=1 << 16),  # a sentence or labelled text has at most 65,536 characters
    "batch_tokens": Range("from 1 to 1048576", low=1, high=1 << 20),
    "length_penalty": Range("from 0 to 10", high=10),
    "size": Range("5 or more (four are special symbols)", low=5),
    **dict.fromkeys(("alignment_layer", "alignment_head"), Range("-1 or more", low=-1)),
    **dict.fromkeys(("length_reward", "diversity"), Range("from 0 to 100", high=100)),
    "repetition_penalty": Range("from 1 to 100", low=1, high=100),
    "no_repeat_ngrams": Range("from 0 to 100", high=100),
    **dict.fromkeys(("allow_skipped", "weight"), _PROBABILITY),
    "base": Range("more than 1", low=1, open_low=True),
    "scaling_factor": Range("1 or more", low=1),
    "learning_rate": POSITIVE,
    "factor": _INSIDE,
    "top_p": Range("more than 0 and at most 1", high=1, open_low=True),
    "seed": Range("from 0 to 4294967295", high=2**32 - 1),
}
"""Ranges by the last part of a setting's name, for classes that are not a `Family`; other numbers must be 0 or more."""

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_config(config: Settings, places: Mapping[str, str] | None = None) -> None:
    """Check that every number is in its range, and that no settings are in conflict with each other.

    Args:
        config: A run's configuration, or a part of one.
        places: The file and line of each setting, such as `run.yaml:3`, by dotted name, for messages; None for no files.

    Raises:
        ConfigError: If a setting is out of range or conflicts with another.
    """
    for name, value, wanted in numbers(config):
        within = wanted.high < float("inf") or abs(value) <= _LARGEST
        if not wanted.holds(value) or not within:
            raise _error(name, f"{name} is {value:g}, expected {wanted.words}{'' if within else _AT_MOST}", places)
    for name, message in config.misfits():
        raise _error(name, message, places)


def numbers(config: Any, path: str = "") -> Iterator[tuple[str, float, Range]]:
    """Yield the dotted name, the value and the range of each number in a configuration, or in a part of one.

    Args:
        config: The configuration.
        path: Prefix of the names, such as `model.`.
    """
    for item in fields(config):
        name, value = f"{path}{item.name}", getattr(config, item.name)
        if is_dataclass(value):
            yield from numbers(value, f"{name}.")
            continue
        # Each class of a `Family` (mechanisms, normalizers, poolings) defines its own ranges; the others use `_RANGES`.
        wanted = config.ranges.get(item.name, ANY) if isinstance(config, Family) else _RANGES.get(item.name, NOT_NEGATIVE)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield name, number, wanted


def device_misfits(device: str) -> Iterator[tuple[str, str]]:
    """Yield a conflict, in the form of `Settings.misfits`, if the name of a run's device is not valid."""
    if not _DEVICE.fullmatch(device):
        yield "device", f"device is '{device}', expected auto, cpu, cuda, or cuda:N"


def optimizer_misfits(training: TrainingConfig) -> Iterator[tuple[str, str]]:
    """Yield a conflict, in the form of `Settings.misfits`, if the weight decay is too large for the optimizer."""
    if training.optimizer == "adam" and training.weight_decay > _MOST_L2:
        yield (
            "training.weight_decay",
            f"training.weight_decay is {training.weight_decay:g}, which is too large for adam: the model would learn "
            "nothing; set training.optimizer to adamw, or weight_decay to 0",
        )


def encoding_misfits(encoding: str) -> Iterator[tuple[str, str]]:
    """Yield a conflict, in the form of `Settings.misfits`, if `encoding` is neither `auto` nor a text encoding of Python."""
    try:
        if encoding != "auto":
            "".encode(encoding)
            codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError):
        known = ("auto", *sorted(set(aliases.values()) | {"cp1252", "utf-8"}))
        yield (
            "data.encoding",
            f"data.encoding is '{encoding}', which is not a text encoding of Python{nearest(encoding, known)}; expected "
            "auto, utf-8, utf-16, cp1252, …",
        )


class _Transformer(Protocol):
    """Settings of a Transformer that `transformer_misfits` reads; all Transformers have them."""

    @property
    def num_heads(self) -> int: ...

    @property
    def positions(self) -> str: ...


def transformer_misfits(model: _Transformer, size: int, name: str = "model.hidden_size") -> Iterator[tuple[str, str]]:
    """Yield conflicts, in the form of `Settings.misfits`, between a Transformer's width and its heads or positions.

    Args:
        model: Settings of the model.
        size: Width of the model.
        name: Dotted name of the setting that holds the width.
    """
    heads = model.num_heads
    if size % heads:
        yield "model.num_heads", f"model.num_heads is {heads}, expected a divisor of {name} ({size})"
    elif model.positions == "rotary" and size // heads % 2:
        yield (
            "model.positions",
            f"model.positions is 'rotary', which rotates pairs of features, but a head has {size // heads} "
            f"features: make {name} / model.num_heads even",
        )
    if model.positions == "sinusoidal" and size % 2:
        yield "model.positions", f"model.positions is 'sinusoidal', which needs an even {name}; it is {size}"


def _error(name: str, message: str, places: Mapping[str, str] | None) -> ConfigError:
    place = (places or {}).get(name, "")
    return ConfigError(f"{place}: {message}" if place else message)
