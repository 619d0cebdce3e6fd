"""Settings for a classifier, chosen from the labelled texts."""

from collections.abc import Mapping

from regard.choose.choice import Choice, Given, count
from regard.choose.survey import STAND_IN, LabelledSurvey, survey_labelled
from regard.config import (
    BagClassifierConfig,
    CombinedClassifierConfig,
    HierarchicalClassifierConfig,
    LabelledDataConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)

_MODELS: Mapping[str, type] = {
    "combined": CombinedClassifierConfig,
    "bag": BagClassifierConfig,
    "recurrent": RecurrentClassifierConfig,
    "transformer": TransformerClassifierConfig,
    "hierarchical": HierarchicalClassifierConfig,
}
_PRESETS = {"recurrent": "bilstm"}
"""Presets by the kind of their model, where the two differ in name."""
_COMBINED_UP_TO = 2_000_000
"""Words up to which the recurrent members of a combined classifier train within minutes; above, a bag of n-grams does."""


def draft(data: LabelledDataConfig, given: Given) -> Choice:
    """Choose settings without reading the data, to find out whether the user's settings fit them."""
    return choose_for_labelled(LabelledSurvey(1000, STAND_IN, (500, 500)), data, given)


def choose(data: LabelledDataConfig, given: Given) -> Choice:
    """Choose the settings of a classifier from `data.train` and from what the user set already."""
    return choose_for_labelled(survey_labelled(data), data, given)


def choose_for_labelled(survey: LabelledSurvey, data: LabelledDataConfig, given: Given) -> Choice:
    """Choose the settings of a classifier for texts that were surveyed."""
    words = survey.texts * survey.text.units
    preferred = "recurrent" if data.vectors else "combined" if words <= _COMBINED_UP_TO else "bag"
    kind = given.kind("model", _MODELS, preferred)
    labels = count(len(survey.labels), "label")
    found = f"{count(survey.texts, 'text')} of {survey.text.units:.1f} words on average, with {labels}"
    return Choice(_PRESETS.get(kind, kind), {}, (found,))
