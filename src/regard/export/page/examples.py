"""The default example texts of a page."""

from collections.abc import Sequence
from typing import Any

from regard.task import find_task
from regard.text.languages import find_language
from regard.text.symbols import UNKNOWN

_MOST = 6


def choose_examples(predictors: Sequence[Any]) -> list[str]:
    """Return at most six English texts of the models' task (`Card.inputs`), in a spelling whose words all models know."""
    formats = [find_task(predictor.config.task).bundle_format for predictor in predictors]
    cards = [form.card(predictor.bundle) for form, predictor in zip(formats, predictors, strict=True)]
    # Subword tokenizers know the words of every language, so a model of another language needs its own examples.
    if any(card.languages and find_language(card.languages[0]) != "en" for card in cards):
        return []
    inventories = [form.inventory(predictor.bundle.parts) for form, predictor in zip(formats, predictors, strict=True)]
    tokenizers = [next(iter(inventory.tokenizers.values())) for inventory in inventories]
    known = []
    for text in cards[0].inputs:
        joined = text.replace(" .", ".").replace(" ,", ",")
        spellings = (text, text[0].upper() + text[1:], joined, joined[0].upper() + joined[1:])
        known += [
            spelling for spelling in spellings if all(UNKNOWN not in tokenizer.encode(spelling).ids for tokenizer in tokenizers)
        ][:1]
    return known[:_MOST]
