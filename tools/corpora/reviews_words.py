"""The words of the built-in reviews, from `reviews.yaml`. Sentiment words are stored as pairs of opposites."""

from tools.corpora.tables import read_yaml

Pairs = tuple[tuple[str, str], ...]
"""Pairs (positive word, negative word)."""

_WORDS = read_yaml("reviews.yaml")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(text: str) -> Pairs:
    pairs = [pair.split("/") for pair in text.split()]
    return tuple((positive, negative) for positive, negative in pairs)


ADJECTIVES = _pairs(_WORDS["adjectives"])
NOUNS = _pairs(_WORDS["nouns"])
PAST_VERBS = _pairs(_WORDS["past_verbs"])
BASE_VERBS = _pairs(_WORDS["base_verbs"])
SPECIAL: dict[str, Pairs] = {domain: _pairs(text) for domain, text in _WORDS["special"].items()}
THINGS: dict[str, tuple[str, ...]] = {domain: _words(text) for domain, text in _WORDS["things"].items()}
ASPECTS: dict[str, tuple[str, ...]] = {domain: _words(text) for domain, text in _WORDS["aspects"].items()}
TEASERS: dict[str, tuple[str, ...]] = {domain: _words(text) for domain, text in _WORDS["teasers"].items()}
DECOYS: tuple[str, ...] = tuple(_WORDS["decoys"])
DEGREES = _words(_WORDS["degrees"])
FIRST_NAMES = _words(_WORDS["first_names"])
LAST_NAMES = _words(_WORDS["last_names"])
TITLE_FIRST = _words(_WORDS["title_first"])
TITLE_LAST = _words(_WORDS["title_last"])
PLACES = _words(_WORDS["places"])
RELATIVES = _words(_WORDS["relatives"])
DAYS = _words(_WORDS["days"])
MONTHS = _words(_WORDS["months"])
NUMBERS = _words(_WORDS["numbers"])
COLORS = _words(_WORDS["colors"])
SHADES = _words(_WORDS["shades"])
JOBS = _words(_WORDS["jobs"])
DISHES = _words(_WORDS["dishes"])
SIDES = _words(_WORDS["sides"])
INSTRUMENTS = _words(_WORDS["instruments"])
