"""Settings for a classifier, chosen from the labelled texts.

The kind of model depends on the amount of text. Each kind starts from its preset, whose settings were chosen by
cross-validation. Runs with few updates get a shorter warm-up and a shorter moving average, because those of the preset could
last longer than the run.
"""

from collections.abc import Mapping
from typing import Any

from regard.choose.choice import count, length_settings, to_number
from regard.choose.describe import describe_tokenizer, describe_training
from regard.choose.survey import STAND_IN, LabelledSurvey, survey_labelled
from regard.config import (
    BagClassifierConfig,
    CombinedClassifierConfig,
    HierarchicalClassifierConfig,
    LabelledDataConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from regard.task.settings import Choice, SettingsTable, UserSettings
from regard.tasks.classification.config import ClassificationConfig

_MODELS: Mapping[str, type] = {
    "combined": CombinedClassifierConfig,
    "bag": BagClassifierConfig,
    "recurrent": RecurrentClassifierConfig,
    "transformer": TransformerClassifierConfig,
    "hierarchical": HierarchicalClassifierConfig,
}
_PRESETS = {"recurrent": "bilstm"}
"""Presets by the kind of their model, where the two names differ."""
_EPOCHS = {"combined": 5, "bag": 8, "recurrent": 8, "transformer": 8, "hierarchical": 8}
_BATCHES = {"recurrent": 32}
"""Texts per batch, for kinds of model that do not use 64."""
_MOST_WARMUP, _LONGEST_AVERAGE = 50, 0.99
_COMBINED_UP_TO = 2_000_000
"""Number of words up to which the recurrent members of a combined classifier train within minutes; with more words, only a bag
of n-grams does."""

_ALL_TEXTS_UP_TO, _SCORE_FOLDS = 2_000, 5
"""Number of texts up to which no text is held out of the training of a combined classifier, and the number of folds of the
cross-validation that estimates its scores instead: this is quick, and with few texts every text helps the model."""
_FEWEST_DEV, _MOST_DEV = 200, 1_000
"""Smallest and largest number of texts that are held out of more than `_ALL_TEXTS_UP_TO`; between them, a twentieth."""


def choose_for_labelled(survey: LabelledSurvey, data: LabelledDataConfig, given: UserSettings) -> Choice:
    """Choose the settings of a classifier from a survey of its texts."""
    words = survey.texts * survey.text.units
    preferred = "recurrent" if data.vectors else "combined" if words <= _COMBINED_UP_TO else "bag"
    kind = given.kind("model", _MODELS, preferred)
    batch = to_number(given.find("training.batch_sentences")) or _BATCHES.get(kind, 64)
    epochs, epoch_updates = _EPOCHS[kind], survey.texts / batch
    settings: dict[str, Any] = length_settings(given, epochs=epochs, epoch_updates=epoch_updates, most_warmup=_MOST_WARMUP)
    updates = epoch_updates * (to_number(given.find("training.max_epochs")) or epochs)
    settings["training.ema_decay"] = max(min(_LONGEST_AVERAGE, 1 - 10 / max(updates, 1)), 0)
    if kind == "combined" and not any(map(given.find, ("data.dev", "data.dev_size", "data.folds"))):
        if survey.texts <= _ALL_TEXTS_UP_TO:  # all texts are trained on; other models are scored on each part of them
            settings["training.score_folds"] = _SCORE_FOLDS
        else:
            settings["data.dev_size"] = min(max(_FEWEST_DEV, survey.texts // 20), _MOST_DEV)
    if data.vectors:  # they are vectors of whole words
        settings |= {"tokenizer.kind": "auto", "tokenizer.lowercase": True}
    labels = count(len(survey.labels), "label")
    found = f"{count(survey.texts, 'text')} of {survey.text.units:.1f} words on average, with {labels}"
    return Choice(_PRESETS.get(kind, kind), settings, (found,))


class ClassificationTable(SettingsTable[ClassificationConfig, LabelledDataConfig]):
    """Settings of classifiers."""

    def draft(self, data: LabelledDataConfig, given: UserSettings) -> Choice:
        """Choose settings without reading the data, to check early whether the user's settings fit them."""
        return choose_for_labelled(LabelledSurvey(1000, STAND_IN, (500, 500)), data, given)

    def choose(self, data: LabelledDataConfig, given: UserSettings) -> Choice:
        """Choose the settings of a classifier from `data.train` and from the settings that the user made."""
        return choose_for_labelled(survey_labelled(data), data, given)

    def describe(self, config: ClassificationConfig) -> tuple[str, ...]:
        """As `SettingsTable.describe`."""
        units = describe_tokenizer(config.tokenizer)
        return f"model: {config.model.kind}", f"tokenizer: {units}", describe_training(config)
