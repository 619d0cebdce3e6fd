"""The default example texts of a page."""

from collections.abc import Sequence
from typing import Any

from regard.demo import ReviewCorpus
from regard.text.languages import find_language
from regard.text.symbols import UNKNOWN

TUTORIAL = "she kissed him ."
"""The sentence of a well-known tutorial on attention. It is offered for every translator from English, even if the model does
not know all its words.
"""
SENTENCES = (
    "My brother has not closed the old window.",
    "Although the boys sang in the garden, she slept.",
    "The old man gives the child a red apple.",
    "In our old villages there are many black cats.",
    "I know that he did not want to go home.",
    "a man in a blue shirt is standing on a ladder .",
    "two dogs are playing in the snow .",
    "We have not seen the dog today.",
)
BEGINNINGS = ("The old man", "She said that", "Two dogs", "I know that", "In the garden", "a film that")
"""Beginnings of texts, for language models."""
REVIEWS = (
    "not a good film , but never boring",
    "a gripping , honest film",
    "the plot is thin and the jokes are not funny",
    "I expected nothing and was moved to tears.",
)
_MOST = 6


def choose_examples(predictors: Sequence[Any]) -> list[str]:
    """Return at most six built-in English texts whose words all models know.

    For translators, the last text is `TUTORIAL`, even if it has unknown words; but if neither `data.source` nor the ending of
    the training file says that a translator's source is English, the list is empty.

    Args:
        predictors: Translators, language models or classifiers.
    """
    first = predictors[0].bundle.parts
    if hasattr(first, "labels"):
        corpus = ReviewCorpus()
        return _known(predictors, [*REVIEWS, *(corpus[number].text for number in range(_MOST))])[:_MOST]
    if not hasattr(first, "source"):
        return _known(predictors, BEGINNINGS)
    if not all(_reads_english(predictor.config.data) for predictor in predictors):
        return []
    return [*_known(predictors, SENTENCES)[: _MOST - 1], *(_known(predictors, [TUTORIAL]) or [TUTORIAL])]


def _reads_english(data: Any) -> bool:
    """Return whether the source is English, according to its name or, without a known name, the ending of its file."""
    ending = data.train[0].rpartition(".")[2] if len(data.train) == 2 else ""
    return (find_language(data.source) or find_language(ending)) == "en"


def _known(predictors: Sequence[Any], texts: Sequence[str]) -> list[str]:
    """Return the texts without unknown words, each in the first spelling that all models know."""
    parts = [predictor.bundle.parts for predictor in predictors]
    tokenizers = [getattr(one, "source", None) or getattr(one, "tokenizer", one) for one in parts]
    known = []
    for text in texts:
        joined = text.replace(" .", ".").replace(" ,", ",")
        spellings = (text, text[0].upper() + text[1:], joined, joined[0].upper() + joined[1:])
        known += [
            spelling for spelling in spellings if all(UNKNOWN not in tokenizer.encode(spelling).ids for tokenizer in tokenizers)
        ][:1]
    return known
