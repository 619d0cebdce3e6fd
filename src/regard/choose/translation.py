"""Settings for a translator, chosen from the sentence pairs.

The table goes by the number of target words to learn from, which decides how much a model can learn before it memorises its
examples. `docs/choosing.md` has the measurement behind each row.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.choose.choice import Choice, Given, count, interpolate, length_settings
from regard.choose.survey import STAND_IN, PairSurvey, TextSurvey, survey_pairs
from regard.config import BahdanauDecoderConfig, DataConfig, LuongDecoderConfig, RecurrentConfig, TransformerConfig

_MODELS: Mapping[str, type] = {"transformer": TransformerConfig, "recurrent": RecurrentConfig}
_DECODERS: Mapping[str, type] = {"luong": LuongDecoderConfig, "bahdanau": BahdanauDecoderConfig}
_TOKENS_PER_WORD = 1.25
"""Subwords and punctuation marks for each word between spaces, roughly."""


@dataclass(frozen=True)
class _Row:
    """Settings of a Transformer for up to `words` target words."""

    words: float
    pieces: int
    """Size of a joint vocabulary."""
    width: int
    layers: int
    """Of the encoder, and as many of the decoder."""
    dropout: float
    batch_tokens: int
    epochs: int


_ROWS = (
    _Row(words=10_000, pieces=1_000, width=128, layers=3, dropout=0.3, batch_tokens=512, epochs=120),
    _Row(words=100_000, pieces=2_500, width=128, layers=4, dropout=0.3, batch_tokens=2048, epochs=45),
    _Row(words=1_000_000, pieces=5_000, width=128, layers=4, dropout=0.15, batch_tokens=2048, epochs=10),
    _Row(words=10_000_000, pieces=8_000, width=256, layers=4, dropout=0.1, batch_tokens=4096, epochs=5),
    _Row(words=math.inf, pieces=16_000, width=512, layers=6, dropout=0.1, batch_tokens=8192, epochs=3),
)

_RECURRENT_EPOCHS = ((3.6, 100.0), (4.6, 40.0), (5.6, 12.0), (7.0, 6.0))
"""Epochs of a recurrent model by log10 of the number of target words."""

_CHARACTERS_BELOW = 2_000_000
"""Target words below which a side without spaces is cut into characters; above, subwords have enough examples."""


def draft(data: DataConfig, given: Given) -> Choice:
    """Choose settings without reading the data, to find out whether the user's settings fit them."""
    return choose_for_pairs(PairSurvey(1000, STAND_IN, STAND_IN), given)


def choose(data: DataConfig, given: Given) -> Choice:
    """Choose the settings of a translator from `data.train` and from what the user set already."""
    return choose_for_pairs(survey_pairs(data), given)


def choose_for_pairs(survey: PairSurvey, given: Given) -> Choice:
    """Choose the settings of a translator for pairs that were surveyed."""
    words = survey.pairs * survey.target.units
    held_out = {"data.dev_size": max(min(survey.pairs // 20, 1000), 1)}
    found = (
        f"{count(survey.pairs, 'pair')}, with {survey.source.units:.1f} words a source and {survey.target.units:.1f} a target "
        "on average",
        *(f"the {side} has no spaces between words" for side, text in survey.sides.items() if text.unspaced),
    )
    preset = _find_preset(given)
    if preset in _DECODERS:
        epochs = round(interpolate(math.log10(max(words, 1)), _RECURRENT_EPOCHS))
        return Choice(preset, held_out | length_settings(given, epochs=epochs, epoch_updates=words / 1536), found)
    row = next(row for row in _ROWS if words <= row.words)
    settings = _transformer(row, words, given) | _tokenizers(survey, row, words, given)
    return Choice(preset, held_out | settings, found)


def _find_preset(given: Given) -> str:
    if given.kind("model", _MODELS, "transformer") == "transformer":
        return "transformer-tiny"
    return given.kind("model.decoder", _DECODERS, "luong")


def _transformer(row: _Row, words: float, given: Given) -> dict[str, Any]:
    return {
        "model.hidden_size": row.width,
        "model.encoder_layers": row.layers,
        "model.decoder_layers": row.layers,
        "model.num_heads": max(4, row.width // 64),
        "model.feed_forward_size": 2 * row.width,
        "model.embedding_dropout": row.dropout,
        "model.layer_dropout": row.dropout,
        **length_settings(given, epochs=row.epochs, epoch_updates=words * _TOKENS_PER_WORD / row.batch_tokens),
        "training.batch_tokens": row.batch_tokens,
        "training.label_smoothing": 0.1,
        **_optimizer(given),
    }


def _optimizer(given: Given) -> dict[str, Any]:
    """Choose what fits an optimizer that the user set in place of Muon."""
    chosen = given.find("training.optimizer")
    if chosen in (None, "muon"):
        return {}
    return {"training.learning_rate": 1e-3, "training.weight_decay": 0.01 if chosen == "adamw" else 0}


def _tokenizers(survey: PairSurvey, row: _Row, words: float, given: Given) -> dict[str, Any]:
    """Choose the tokenizers, and whether one vocabulary serves both sides."""
    if given.find("tokenizers") is not None:
        return _joint(str(given.find("tokenizers.joint")).lower() == "true")
    if survey.related and not any(text.unspaced for text in survey.sides.values()):
        return {f"tokenizers.{side}.size": _size(row, *survey.sides.values()) for side in survey.sides}
    settings = _joint(False)
    for side, text in survey.sides.items():
        if text.unspaced and words < _CHARACTERS_BELOW:
            settings |= {f"tokenizers.{side}.kind": "characters", "data.max_tokens": 500}
        else:
            settings[f"tokenizers.{side}.size"] = _size(row, text)
    return settings


def _joint(joint: bool) -> dict[str, Any]:
    return {"tokenizers.joint": joint, "model.tie_embeddings": "all" if joint else "target"}


def _size(row: _Row, *texts: TextSurvey) -> int:
    """Return a row's vocabulary size, with room for all characters."""
    return max(row.pieces, 500 + max(text.num_characters for text in texts))
