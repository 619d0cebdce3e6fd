"""Ranges of the settings, and the settings that must fit each other."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from regard.errors import ConfigError


@dataclass(frozen=True)
class _Range:
    words: str
    low: float = 0.0
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


_NOT_NEGATIVE = _Range("0 or more")
_POSITIVE = _Range("more than 0", open_low=True)
_COUNT = _Range("1 or more", low=1)
_PROBABILITY = _Range("from 0 to 1", high=1)
_BELOW_ONE = _Range("0 or more and less than 1", high=1, open_high=True)
_INSIDE = _Range("more than 0 and less than 1", high=1, open_low=True, open_high=True)

_RANGES = {
    **dict.fromkeys(
        ("hidden_size", "embedding_size", "num_layers", "max_epochs", "batch_tokens", "accumulate", "beam_size", "max_tokens"),
        _COUNT,
    ),
    **dict.fromkeys(("embedding_dropout", "layer_dropout", "output_dropout", "readout_dropout"), _BELOW_ONE),
    **dict.fromkeys(("label_smoothing", "ema_decay", "betas"), _BELOW_ONE),
    **dict.fromkeys(("start", "end", "final"), _PROBABILITY),
    "min_count": _COUNT,
    "size": _Range("5 or more (four are special symbols)", low=5),
    "learning_rate": _POSITIVE,
    "factor": _INSIDE,
    "seed": _Range("from 0 to 4294967295", high=2**32 - 1),
}
"""By the field's last name; every other number is 0 or more."""

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_config(config: Any, places: Mapping[str, str] | None = None) -> None:
    """Check every number's range, and the settings that must fit each other.

    Args:
        config: A `TranslationConfig`, or a part of one.
        places: Where the settings were written, for messages.

    Raises:
        ConfigError: If one is out of range or at odds with another.
    """
    for name, value in _numbers(config, ""):
        wanted = _RANGES.get(name.rpartition(".")[2], _NOT_NEGATIVE)
        if not wanted.holds(value):
            raise _error(name, f"{name} is {value:g}, expected {wanted.words}", places)
    for name, message in _misfits(config):
        raise _error(name, message, places)


def _numbers(config: Any, path: str) -> Iterator[tuple[str, float]]:
    for item in fields(config):
        name, value = f"{path}{item.name}", getattr(config, item.name)
        if is_dataclass(value):
            yield from _numbers(value, f"{name}.")
            continue
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield name, number


def _misfits(config: Any) -> Iterator[tuple[str, str]]:
    device, tokenizers, model = (getattr(config, name, None) for name in ("device", "tokenizers", "model"))
    if device is not None and not _DEVICE.fullmatch(device):
        yield "device", f"device is '{device}', expected auto, cpu, cuda, or cuda:N"
    if tokenizers is not None and tokenizers.joint and tokenizers.source != tokenizers.target:
        yield "tokenizers.joint", "tokenizers.joint is true, so tokenizers.target must have the settings of tokenizers.source"
    if tokenizers is not None and model is not None and model.tie_embeddings == "all" and not tokenizers.joint:
        yield "model.tie_embeddings", "model.tie_embeddings is 'all', which needs one vocabulary: set tokenizers.joint to true"
    if model is not None and (model.decoder.kind, model.decoder.readout) == ("luong", "output"):
        message = "model.decoder.readout is 'output', which a decoder of kind 'luong' makes before it attends"
        yield "model.decoder.readout", f"{message}: the attention would do nothing; expected one of: concat, attentional, deep"
    data = getattr(config, "data", None)
    if data is not None:
        for name, value in (("train", data.train), ("dev", data.dev)):
            if len(value) > 2:
                yield f"data.{name}", f"data.{name} names {len(value)} files, expected one file of pairs or two parallel files"
        if len(data.columns) not in (0, 2):
            yield "data.columns", f"data.columns names {len(data.columns)}, expected two: the source's and the target's"


def _error(name: str, message: str, places: Mapping[str, str] | None) -> ConfigError:
    place = (places or {}).get(name, "")
    return ConfigError(f"{place}: {message}" if place else message)
