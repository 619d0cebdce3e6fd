"""Settings for a classifier, chosen from the labelled texts.

The kind of model depends on the amount of text and on whether there are word vectors, unless the user's settings decide it.
Each kind starts from its preset, whose settings were chosen by cross-validation. Runs with few updates get a shorter warm-up
and a shorter moving average, because those of the preset could last longer than the run.
"""

from collections.abc import Mapping
from typing import Any

from regard.choose.choice import describe_tokenizer, describe_training, length_settings, to_number
from regard.choose.survey import STAND_IN, LabelledSurvey, survey_labelled
from regard.config import (
    BagClassifierConfig,
    CombinedClassifierConfig,
    HierarchicalClassifierConfig,
    LabelledDataConfig,
    PretrainedClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from regard.plurals import counted
from regard.task.settings import Choice, SettingsTable, UserSettings
from regard.tasks.classification.config import ClassificationConfig

_MODELS: Mapping[str, type] = {
    "combined": CombinedClassifierConfig,
    "bag": BagClassifierConfig,
    "recurrent": RecurrentClassifierConfig,
    "transformer": TransformerClassifierConfig,
    "hierarchical": HierarchicalClassifierConfig,
    "pretrained": PretrainedClassifierConfig,
}
# Name of the preset for a kind of model, if it differs from the kind.
_PRESETS = {"recurrent": "bilstm"}
_EPOCHS = {"combined": 5, "bag": 8, "recurrent": 8, "transformer": 8, "hierarchical": 8}
# Number of texts per batch, for kinds of models that do not use 64.
_BATCHES = {"recurrent": 32, "pretrained": 16}
_MOST_WARMUP, _LONGEST_AVERAGE = 50, 0.99
# Number of words in all texts up to which a combined classifier is chosen, whose recurrent members then train within minutes.
# With more words, only a bag of n-grams does.
_COMBINED_UP_TO = 2_000_000

# Pairs of a maximum number of texts and a number of folds, of which the first that fits is used. If there are so few texts,
# none is held out for a combined classifier; a cross-validation with these folds estimates its scores. Accuracy on SST-2's test
# set after training on 6,919 sentences, one seed: 82.7%, but only 81.0% if a twentieth of the sentences is held out.
_SCORE_FOLDS = ((2_000, 5), (20_000, 3))
# Number of texts that are held out for a combined classifier if there are more texts than in `_SCORE_FOLDS`.
_DEV_SIZE = 1_000
# Number of texts up to which a pretrained encoder is recommended, and the number below which no text is held out.
_FEW_TEXTS, _ALL_TRAINED = 7_000, 1_000
# Learning rate of adapters as a share of that of the output layer; weights of the encoder itself have the preset's, 0.01.
_ADAPTER_RATE = 0.1
_ADVICE = (
    "with so few texts, a pretrained encoder is usually more accurate: on 500 sentences of SST-2, 82.3% instead of 67.2%; for "
    "English, add --model.encoder.name hf://sentence-transformers/all-MiniLM-L6-v2, which downloads 91 MB"
)


def _encoder_tuning(given: UserSettings, words: float) -> str:
    """Choose which weights of a pretrained encoder are trained, for a number of words in all texts."""
    tuning = given.find("model.encoder.tuning")
    return ("whole" if words <= _COMBINED_UP_TO else "frozen") if tuning in (None, "auto") else str(tuning)


def _encoder_epochs(tuning: str, texts: int) -> int:
    """Choose the number of epochs: several for few texts, and many for a frozen encoder, which reads each text once."""
    return 20 if tuning == "frozen" else min(max(1000 // max(texts, 1), 4 if texts < 2000 else 3), 20)


def _encoder_settings(given: UserSettings, tuning: str, survey: LabelledSurvey) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "tokenizer.kind": "pretrained",
        "tokenizer.name": given.find("model.encoder.name") or "",
        "model.encoder.tuning": tuning,
    }
    # Accuracy on SST-2 with pairs and without, means of two draws: 79 and 76% with 100 texts, 82.7 and 82.5% with 500.
    settings["model.contrastive"] = tuning != "frozen"
    if tuning == "lora":
        settings["model.encoder.rate"] = _ADAPTER_RATE
    if survey.texts < _ALL_TRAINED:  # a tenth of them is too few to choose a checkpoint, and more useful in training
        settings["data.dev_size"] = 0
    return settings


class ClassificationTable(SettingsTable):
    """The `SettingsTable` of classifiers."""

    def choose(self, data: LabelledDataConfig, given: UserSettings, *, read: bool = True) -> Choice:
        survey = survey_labelled(data) if read else LabelledSurvey(1000, STAND_IN, 2)
        words = survey.texts * survey.text.units
        preferred = "recurrent" if data.vectors else "combined" if words <= _COMBINED_UP_TO else "bag"
        kind = given.kind("model", _MODELS, preferred)
        batch = to_number(given.find("training.batch_sentences")) or _BATCHES.get(kind, 64)
        tuning = _encoder_tuning(given, words)
        epochs = _encoder_epochs(tuning, survey.texts) if kind == "pretrained" else _EPOCHS[kind]
        epoch_updates = survey.texts / batch
        settings: dict[str, Any] = length_settings(given, epochs=epochs, epoch_updates=epoch_updates, most_warmup=_MOST_WARMUP)
        updates = epoch_updates * (to_number(given.find("training.max_epochs")) or epochs)
        settings["training.ema_decay"] = max(min(_LONGEST_AVERAGE, 1 - 10 / max(updates, 1)), 0)
        own_scores = given.find("data.dev") or any(to_number(given.find(f"data.{name}")) for name in ("dev_size", "folds"))
        if kind == "combined" and not own_scores:
            folds = next((folds for most, folds in _SCORE_FOLDS if survey.texts <= most), 0)
            settings |= {"training.score_folds": folds} if folds else {"data.dev_size": _DEV_SIZE}
        if kind == "pretrained":
            settings |= _encoder_settings(given, tuning, survey)
        elif data.vectors:  # the file has vectors of whole words
            settings |= {"tokenizer.kind": "auto", "tokenizer.lowercase": True}
        labels = counted(survey.labels, "label")
        found = f"{counted(survey.texts, 'text')} of {survey.text.units:.1f} words on average, with {labels}"
        advice = (_ADVICE,) if kind == "combined" and survey.texts <= _FEW_TEXTS and not given.find("model.kind") else ()
        return Choice(_PRESETS.get(kind, kind), settings, (found, *advice))

    def describe(self, config: ClassificationConfig) -> tuple[str, ...]:
        units, model = describe_tokenizer(config.tokenizer), config.model.kind
        if isinstance(config.model, PretrainedClassifierConfig):
            model += f" ({config.model.encoder.name}, tuning {config.model.encoder.tuning}"
            model += ", contrastive)" if config.model.contrastive else ")"
        if model == "combined":
            model += " (the most accurate; `--preset bag` takes about a tenth of the time, and is a few points less accurate)"
        return f"model: {model}", f"tokenizer: {units}", describe_training(config)
