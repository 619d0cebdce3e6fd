"""The default example texts of a page."""

from collections.abc import Sequence
from typing import Any

from regard.demo import ReviewCorpus
from regard.text.languages import find_language
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer

TUTORIAL = "she kissed him ."
"""The sentence of a well-known tutorial on attention. It is offered for every translator from English, even if the model does
not know all its words.
"""
_MOST_TOKENS = 1.5
"""A subword vocabulary counts as learned from English text if it needs at most this many tokens per English word."""
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

    For translators, the last text is `TUTORIAL`, even if it has unknown words; but if a translator's source is not English, the
    list is empty.

    Args:
        predictors: Translators, language models or classifiers.
    """
    tokenizers = [_reader(predictor) for predictor in predictors]
    if hasattr(predictors[0], "generate"):
        return _known(tokenizers, BEGINNINGS)
    if hasattr(predictors[0].bundle, "labels"):
        corpus = ReviewCorpus()
        return _known(tokenizers, [*REVIEWS, *(corpus[number].text for number in range(_MOST))])[:_MOST]
    if not all(map(_reads_english, predictors)):
        return []
    tutorial = _known(tokenizers, [TUTORIAL]) or [TUTORIAL]
    return [*_known(tokenizers, SENTENCES)[: _MOST - 1], *tutorial]


def _reads_english(translator: Any) -> bool:
    """Return whether the source is English.

    The name of the language decides. If it is unknown, the ending of the training file decides, or else the vocabulary.
    """
    data, bundle = translator.config.data, translator.bundle
    if named := find_language(data.source):
        return named == "en"
    if len(data.train) == 2 and (named := find_language(data.train[0].rpartition(".")[2])):
        return named == "en"
    own = bundle.source_tokenizer
    if own.symbols.tokens == bundle.target_tokenizer.symbols.tokens:  # a vocabulary of both languages tells nothing
        return False
    known = [text for text in SENTENCES if _knows(own, text)]
    words = sum(len(text.split()) for text in known)
    return words > 0 and sum(len(own.encode(text).ids) for text in known) <= _MOST_TOKENS * words


def _known(tokenizers: Sequence[Tokenizer], texts: Sequence[str]) -> list[str]:
    """Return the texts without unknown words, each in the first spelling that all tokenizers know."""
    found = []
    for text in texts:
        joined = text.replace(" .", ".").replace(" ,", ",")
        spellings = (text, text[0].upper() + text[1:], joined, joined[0].upper() + joined[1:])
        found += [spelling for spelling in spellings if all(_knows(one, spelling) for one in tokenizers)][:1]
    return found


def _reader(predictor: Any) -> Tokenizer:
    bundle = predictor.bundle
    tokenizer: Tokenizer = bundle.tokenizer if hasattr(bundle, "tokenizer") else bundle.source_tokenizer
    return tokenizer


def _knows(tokenizer: Tokenizer, text: str) -> bool:
    return UNKNOWN not in tokenizer.encode(text).ids
