"""Settings for a translator, chosen from the sentence pairs.

The number of target words decides the kind of model, unless the user's settings do: a recurrent model within
`_RECURRENT_BETWEEN`, otherwise a Transformer with the sizes of a row of `_ROWS`. Short strings, such as words and their
pronunciations, get a recurrent model that reads and writes characters. With more words, a larger model can learn more
before it memorises its examples. `docs/explanation/choosing.md` has the measurements behind the rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.choose.choice import describe_tokenizer, describe_training, interpolate, length_settings, transformer_settings
from regard.choose.survey import STAND_IN, PairSurvey, TextSurvey, survey_pairs
from regard.config import (
    BahdanauDecoderConfig,
    DataConfig,
    EncoderConfig,
    LuongDecoderConfig,
    PretrainedSourceConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.plurals import counted
from regard.task.settings import Choice, SettingsTable, UserSettings
from regard.tasks.translation.config import TranslationConfig

_MODELS: Mapping[str, type] = {"transformer": TransformerConfig, "recurrent": RecurrentConfig}
_DECODERS: Mapping[str, type] = {"luong": LuongDecoderConfig, "bahdanau": BahdanauDecoderConfig}
# Settings of both tokenizers of a model that copies words.
_COPIED: Mapping[str, Any] = {"kind": "words", "min_count": 2}
# Approximate number of subwords and punctuation marks per space-separated word.
_TOKENS_PER_WORD = 1.4


@dataclass(frozen=True)
class _Row:
    """Settings of a Transformer for up to `words` target words."""

    words: float
    pieces: int
    """Minimum size of a joint vocabulary, or of each side's vocabulary if they are separate."""
    layers: int
    """Number of layers in the encoder, and also in the decoder."""
    width: int
    dropout: float
    batch_tokens: int


_ROWS = (
    _Row(words=10_000, pieces=1_000, layers=3, width=128, dropout=0.3, batch_tokens=512),
    _Row(words=100_000, pieces=2_500, layers=4, width=128, dropout=0.3, batch_tokens=2048),
    _Row(words=250_000, pieces=4_000, layers=4, width=128, dropout=0.3, batch_tokens=4096),
    _Row(words=1_000_000, pieces=5_000, layers=4, width=128, dropout=0.2, batch_tokens=4096),
    _Row(words=10_000_000, pieces=8_000, layers=4, width=256, dropout=0.1, batch_tokens=4096),
    _Row(words=math.inf, pieces=16_000, layers=6, width=512, dropout=0.1, batch_tokens=8192),
)
# Range of the number of target words in which a recurrent model translates better than a Transformer.
_RECURRENT_BETWEEN = (10_000, 100_000)
# Number of target tokens to train on, in all epochs together. This takes about 10 to 17 minutes on two cores with the smaller
# models of `_ROWS`.
_TOKENS_TO_TRAIN_ON = 9_200_000
# Reward per target token in beam search. Without it, translations are too short, because of label smoothing.
_LENGTH_REWARD = 0.5
_FEWEST_EPOCHS, _MOST_EPOCHS = 4, 50

# Tables of the epochs of a recurrent model: pairs of (log10 of the number of target words, number of epochs), interpolated.
_MUON_EPOCHS = ((3.6, 60.0), (4.6, 24.0), (5.6, 12.0), (7.0, 6.0))
_OTHER_EPOCHS = ((3.6, 100.0), (4.6, 40.0), (5.6, 12.0), (7.0, 6.0))
# Learning rate of a recurrent model with another optimizer than Muon.
_OTHER_RATE = 2e-3

_RECURRENT_PIECES, _RECURRENT_BATCH = 2_000, 1536

# Number of target tokens to train on for short strings, in all epochs together, and the largest number of epochs. This takes
# about 4 minutes on two cores.
_STRING_TOKENS, _MOST_STRING_EPOCHS = 1_750_000, 100
# Dropout for short strings. With the higher dropout of the preset, the loss on held-out pairs falls more slowly.
_STRING_DROPOUT = 0.2
_DROPOUTS = ("encoder.embedding_dropout", "encoder.output_dropout", "decoder.embedding_dropout", "decoder.readout_dropout")

# Dropout on the states of a pretrained encoder.
_STATES_DROPOUT = 0.3

# Number of target words below which text without spaces between words is split into characters. With more words, there are
# enough examples to learn subwords.
_CHARACTERS_BELOW = 2_000_000


def _choose(survey: PairSurvey, given: UserSettings) -> Choice:
    strings = survey.strings
    words = survey.pairs * (survey.target.characters if strings and not survey.target.symbols else survey.target.units)
    held_out = {"data.dev_size": max(min(survey.pairs // 20, 1000), 1)}
    found = (
        f"{counted(survey.pairs, 'pair')}, with {survey.source.units:.1f} words per source and {survey.target.units:.1f} per "
        "target on average",
        *(f"the {side} has no spaces between words" for side, text in survey.sides.items() if text.unspaced),
        *(["the texts are short strings, such as words, names or dates"] * strings),
    )
    preferred = "recurrent" if strings or _RECURRENT_BETWEEN[0] < words <= _RECURRENT_BETWEEN[1] else "transformer"
    pretrained = "pretrained" in (given.find("model.encoder.kind"), given.find("model.encoder.name") and "pretrained")
    if given.find("model.encoder") and not pretrained:
        preferred = "recurrent"  # a Transformer's own encoder has no settings
    kind = given.kind("model", _MODELS, preferred)
    # Beam search revises words that were written, and an encoder of both directions needs words that have not arrived.
    if str(given.find("model.wait_k") or "0") != "0":
        held_out |= {"decoding.beam_size": 1} | ({"model.encoder.bidirectional": False} if kind == "recurrent" else {})
    if kind == "recurrent":
        preset, settings = given.kind("model.decoder", _DECODERS, "luong"), _recurrent(survey, words, given, pretrained)
    else:
        row = next(row for row in _ROWS if words <= row.words)
        preset = "transformer-tiny"
        settings = _transformer(row, survey.pairs, words, given) | _tokenizers(survey, row.pieces, words, given)
    return Choice(preset, held_out | (_with_encoder(settings, given) if pretrained else settings), found)


def _with_encoder(settings: dict[str, Any], given: UserSettings) -> dict[str, Any]:
    """Change the chosen settings for a pretrained encoder, which has its own tokenizer and a learning rate for each layer."""
    kept = {name: value for name, value in settings.items() if not name.startswith(("model.encoder.", "tokenizers.source."))}
    kept |= {"model.encoder.kind": "pretrained", "model.encoder.output_dropout": _STATES_DROPOUT}
    kept |= {"tokenizers.source.kind": "pretrained", "tokenizers.joint": False, "model.tie_embeddings": "target"}
    if given.find("model.encoder.tuning") is None:
        kept["model.encoder.tuning"] = "frozen"
    if given.find("training.optimizer") is None:
        kept |= {"training.optimizer": "adamw", "training.learning_rate": 2e-3, "training.weight_decay": 0.01}
    return kept


def _transformer(row: _Row, pairs: int, words: float, given: UserSettings) -> dict[str, Any]:
    tokens = words * _TOKENS_PER_WORD + pairs  # each target also has an end symbol
    epochs = round(min(max(_TOKENS_TO_TRAIN_ON / max(tokens, 1), _FEWEST_EPOCHS), _MOST_EPOCHS))
    return {
        **transformer_settings(row.width, row.dropout, feed_forward=2),
        "model.encoder_layers": row.layers,
        "model.decoder_layers": row.layers,
        **length_settings(given, epochs=epochs, epoch_updates=tokens / row.batch_tokens),
        "training.batch_tokens": row.batch_tokens,
        "training.label_smoothing": 0.1,
        "decoding.length_reward": _LENGTH_REWARD,
        **_optimizer(given, rate=1e-3),
    }


def _recurrent(survey: PairSurvey, words: float, given: UserSettings, pretrained: bool) -> dict[str, Any]:
    optimizer = _optimizer(given, rate=_OTHER_RATE, default="adam" if survey.strings or pretrained else "muon")
    if survey.strings:
        tokens = words + survey.pairs  # each target also has an end symbol
        epochs = min(max(_STRING_TOKENS / max(tokens, 1), _FEWEST_EPOCHS), _MOST_STRING_EPOCHS)
    else:
        tokens = words * _TOKENS_PER_WORD
        epochs = interpolate(math.log10(max(words, 1)), _OTHER_EPOCHS if optimizer else _MUON_EPOCHS)
    settings = optimizer | length_settings(given, epochs=round(epochs), epoch_updates=tokens / _RECURRENT_BATCH)
    if words > _RECURRENT_BETWEEN[1] and not survey.strings:
        return settings | _characters(survey, given)
    others: dict[str, Any] = {"decoding.length_penalty": 0, "decoding.replace_unknown": False}
    others |= {f"model.{name}": _STRING_DROPOUT for name in _DROPOUTS if survey.strings}
    kinds = {f"tokenizers.{side}.kind": "bpe" for side in survey.sides if given.find("tokenizers") is None}
    return settings | others | kinds | _tokenizers(survey, _RECURRENT_PIECES, words, given)


def _characters(survey: PairSurvey, given: UserSettings) -> dict[str, Any]:
    """Choose characters for sides without spaces between words, which the preset would split into words."""
    if given.find("tokenizers") is not None:
        return {}
    sides = [side for side, text in survey.sides.items() if text.unspaced]
    return {f"tokenizers.{side}.kind": "characters" for side in sides} | ({"data.max_tokens": 500} if sides else {})


def _optimizer(given: UserSettings, *, rate: float, default: str = "muon") -> dict[str, Any]:
    """Choose the learning rate and weight decay of an optimizer; nothing for Muon, whose settings are in the presets."""
    chosen = given.find("training.optimizer") or default
    if chosen == "muon":
        return {}
    decay = 0.01 if chosen == "adamw" else 0
    return {"training.optimizer": chosen, "training.learning_rate": rate, "training.weight_decay": decay}


def _tokenizers(survey: PairSurvey, pieces: int, words: float, given: UserSettings) -> dict[str, Any]:
    """Choose the tokenizers, unless the user set them, and whether both sides share one vocabulary."""
    if given.find("tokenizers") is not None:
        return _joint(str(given.find("tokenizers.joint")).lower() == "true")
    if survey.strings:
        kinds = {side: "whitespace" if text.symbols else "characters" for side, text in survey.sides.items()}
        return {f"tokenizers.{side}.kind": kind for side, kind in kinds.items()} | _joint(False) | {"data.max_tokens": 500}
    if survey.related and not any(text.unspaced for text in survey.sides.values()):
        sizes = {f"tokenizers.{side}.size": _size(pieces, *survey.sides.values()) for side in survey.sides}
        return sizes | _joint(True)
    settings = _joint(False)
    for side, text in survey.sides.items():
        if text.unspaced and words < _CHARACTERS_BELOW:
            settings |= {f"tokenizers.{side}.kind": "characters", "data.max_tokens": 500}
        else:
            settings[f"tokenizers.{side}.size"] = _size(pieces, text)
    return settings


def _joint(joint: bool) -> dict[str, Any]:
    return {"tokenizers.joint": joint, "model.tie_embeddings": "all" if joint else "target"}


def _size(pieces: int, *texts: TextSurvey) -> int:
    """Return `pieces`, or a larger size if a vocabulary of all characters and 500 further symbols needs it."""
    return max(pieces, 500 + max(text.num_characters for text in texts))


class TranslationTable(SettingsTable):
    """The `SettingsTable` of translators."""

    def choose(self, data: DataConfig, given: UserSettings, *, read: bool = True) -> Choice:
        """Choose the settings of a translator; see `SettingsTable.choose`."""
        choice = _choose(survey_pairs(data) if read else PairSurvey(1000, STAND_IN, STAND_IN), given)
        if str(given.find("model.copy")).lower() != "true" or given.find("tokenizers") is not None:
            return choice
        # Only words can be copied, and the model learns it from words outside the vocabulary, which are those that occur once.
        others = {name: value for name, value in choice.settings.items() if not name.startswith("tokenizers.")}
        words = {f"tokenizers.{side}.{name}": value for side in ("source", "target") for name, value in _COPIED.items()}
        return replace(choice, settings=others | words | _joint(False))

    def describe(self, config: TranslationConfig) -> tuple[str, ...]:
        """Describe a configuration; see `SettingsTable.describe`."""
        tokenizers = config.tokenizers
        source, target = describe_tokenizer(tokenizers.source), describe_tokenizer(tokenizers.target)
        units = f"{source}, one vocabulary for both sides" if tokenizers.joint else f"{source}; {target}"
        return (
            f"model: {_describe_model(config.model)}",
            f"tokenizers: {units}",
            describe_training(config),
            f"search: {config.decoding.describe()}",
        )


def _describe_model(model: TransformerConfig | RecurrentConfig) -> str:
    match model:
        case TransformerConfig():
            layers = f"{model.encoder_layers} + {model.decoder_layers} layers"
            if isinstance(model.encoder, PretrainedSourceConfig):
                layers = f"{_describe_encoder(model.encoder)}, {model.decoder_layers} layers"
            return f"Transformer, {layers}, {model.hidden_size} wide, dropout {model.layer_dropout:g}"
        case RecurrentConfig(encoder=encoder, decoder=decoder):
            order = f"decoder in {decoder.kind.capitalize()}'s order with {decoder.attention.kind} attention"
            return f"recurrent ({_describe_encoder(encoder)}, {order})"


def _describe_encoder(encoder: EncoderConfig | PretrainedSourceConfig) -> str:
    if isinstance(encoder, PretrainedSourceConfig):
        return f"pretrained encoder {encoder.name}, tuning {encoder.tuning}"
    return f"{encoder.cell.upper()} {encoder.hidden_size} wide"
