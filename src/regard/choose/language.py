"""Settings for a language model, chosen from the texts."""

from regard.choose.choice import Choice, Given, count
from regard.choose.survey import STAND_IN, PlainSurvey, survey_plain
from regard.config import TextDataConfig


def draft(data: TextDataConfig, given: Given) -> Choice:
    """Choose settings without reading the data, to find out whether the user's settings fit them."""
    return choose_for_texts(PlainSurvey(1000, 100_000, STAND_IN), given)


def choose(data: TextDataConfig, given: Given) -> Choice:
    """Choose the settings of a language model from `data.train` and from what the user set already."""
    return choose_for_texts(survey_plain(data), given)


def choose_for_texts(survey: PlainSurvey, given: Given) -> Choice:
    """Choose the settings of a language model for texts that were surveyed."""
    return Choice("language-tiny", {}, (f"{count(survey.texts, 'text')}, {survey.characters:,} characters",))
