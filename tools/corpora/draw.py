"""Random parts of a clause: groups of nouns, kinds of noun phrases, groups of tenses, places."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tools.corpora import nouns, words
from tools.corpora.phrases import Table, name_table, noun_table, place_table, pronoun_table, words_table
from tools.corpora.words import Adjective

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """Nouns that fit the same verbs, with the adjectives that fit before them and after "is"."""

    nouns: tuple[nouns.Noun, ...]
    adjectives: tuple[Adjective, ...]
    states: tuple[Adjective, ...] = ()
    person: bool = False


PERSONS = Group(nouns.PERSONS, words.PERSON_ADJECTIVES, words.PERSON_STATES, True)
ADULTS = Group(tuple(noun for noun in nouns.PERSONS if noun.gender != "n"), words.PERSON_ADJECTIVES, words.PERSON_STATES, True)
ANIMALS = Group(nouns.ANIMALS, words.ANIMAL_ADJECTIVES, words.ANIMAL_STATES)
THINGS = Group(nouns.THINGS, words.THING_ADJECTIVES, words.THING_STATES)
FOODS = Group(nouns.FOODS, words.FOOD_ADJECTIVES, words.FOOD_STATES)
DRINKS = Group(nouns.DRINKS, words.DRINK_ADJECTIVES, words.DRINK_ADJECTIVES)
TEXTS = Group(nouns.TEXTS, words.TEXT_ADJECTIVES, words.TEXT_STATES)
OPENABLES = Group(nouns.OPENABLES, words.PLACE_ADJECTIVES, words.PLACE_ADJECTIVES)
DEVICES = Group(nouns.DEVICES, words.THING_ADJECTIVES, words.THING_STATES)
ROOMS = Group(nouns.ROOMS, words.PLACE_ADJECTIVES, words.PLACE_ADJECTIVES)
BUILDINGS = Group(nouns.BUILDINGS, words.PLACE_ADJECTIVES)
SHORES = Group(nouns.SHORES, words.SHORE_ADJECTIVES, words.SHORE_ADJECTIVES)
TOPS = Group(nouns.TOPS, words.PLACE_ADJECTIVES)
STATED = (ANIMALS, THINGS, FOODS, TEXTS, OPENABLES, DEVICES)

_OWNERS = ("my", "your", "his", "her", "our")
# kind → determiners of the singular and of the plural. The kinds that one slot may take have no determiner in common, so that
# no sentence is drawn from two patterns: core, owned, counted and bare in a positive clause; definite, owned and no in a
# negated one
DETERMINERS = {
    "core": (("the", "a"), ("the",)),
    "owned": (("this", *_OWNERS), ("this", *_OWNERS)),
    "counted": (("every",), ("two", "three", "many")),
    "bare": ((), ("bare",)),
    "definite": (("the",), ("the",)),
    "indefinite": (("a",), ("bare", "two", "three", "many")),
    "single": (("the", "a", "this", *_OWNERS), ()),
    "no": (("no",), ("no",)),
    "mass": (("the", "bare", *_OWNERS), ()),
    "definite mass": (("the", *_OWNERS), ()),
    "no mass": (("none",), ()),
}
TENSE_GROUPS = {  # group → tenses, the tenses among them that can be negated, adverbials of time
    "present": (("present",), ("present",), words.PRESENT_TIMES),
    "past": (("past",), ("past",), words.PAST_TIMES),
    "perfect": (("perfect",), ("perfect",), words.PERFECT_TIMES),
    "pluperfect": (("pluperfect",), ("pluperfect",), words.PAST_TIMES),
    "future": (("future",), ("future",), words.FUTURE_TIMES),
    "modal": (("can", "must", "may", "should", "want", "would like"), ("can", "may", "should"), words.PRESENT_TIMES),
    "wish": (("can", "must", "should", "want", "would like"), (), words.PRESENT_TIMES),  # nobody asks "may you"
    "past modal": (("could", "had to", "wanted"), ("could",), words.PAST_TIMES),
}
TENSE_WEIGHTS = {
    "present": 32, "past": 22, "perfect": 16, "pluperfect": 6, "future": 9, "modal": 10, "wish": 10, "past modal": 5,
}  # fmt: skip

IN = (("in|#p", "in", "dat"),)
BEFORE = (("behind|#p", "hinter", "dat"), ("in|~#p front|#p of|~#p", "vor", "dat"))
INTO = (("into|#p", "in", "acc"), ("through|#p", "durch", "acc"))
AT = (("at|#p", "an", "dat"),)
TO = (("to|#p", "an", "acc"),)
WITH = (("with|#p", "mit", "dat"), ("without|#p", "ohne", "acc"))
FOR = (("for|#p", "für", "acc"),)
TO_PERSON = (("to|#p", "zu", "dat"),)
ONTO = (("on|#p", "auf", "acc"), ("under|#p", "unter", "acc"), ("next|#p to|~#p", "neben", "acc"))
_PLACE_KINDS = {"core": 0.7, "owned": 0.3}


def pick(random: Random, weights: Mapping[T, float]) -> T:
    """Return a random key, drawn by weight."""
    left = random.random() * sum(weights.values())
    for key, weight in weights.items():
        left -= weight
        if left < 0:
            return key
    return key


def noun_phrases(
    random: Random,
    group: Group,
    *,
    subject: bool = False,
    negated: bool = False,
    kinds: dict[str, float] | None = None,
    adjective: float = 0.4,
) -> Table:
    """Return a table of noun phrases of a group, with random determiners and, with probability `adjective`, adjectives.

    A subject is not a bare plural, so that few words are capitalised at the beginning of a sentence.
    """
    if group is DRINKS:
        kinds = {"no mass": 1} if kinds and "no" in kinds else {"definite mass": 1} if negated else {"mass": 1}
    if kinds is None:
        kinds = (
            {"definite": 0.6, "owned": 0.4}
            if negated
            else {"core": 0.6, "owned": 0.2, "counted": 0.12} | ({} if subject else {"bare": 0.08})
        )
    singular, plural = DETERMINERS[pick(random, kinds)]
    adjectives = group.adjectives if random.random() < adjective else ()
    return noun_table(group.nouns, singular, plural, adjectives, person=group.person)


def subjects(
    random: Random, *, negated: bool = False, adjective: float = 0.4, pronoun: bool | None = None
) -> tuple[Table, bool]:
    """Return a table of subjects (noun phrases, names or pronouns), and whether they are pronouns."""
    named, spoken = {"phrase": 0.62, "name": 0.1}, {"first": 0.14, "third": 0.14}
    kind = pick(random, named | spoken if pronoun is None else spoken if pronoun else named)
    if kind == "name":
        return name_table(), False
    if kind == "first":
        return pronoun_table("i", "we"), True
    if kind == "third":
        return pronoun_table("he", "she", "they"), True
    return noun_phrases(random, PERSONS, subject=True, negated=negated, adjective=adjective), False


def rooms(random: Random, *, adjective: float = 0.3) -> Table:
    """Return a table of phrases for a room in which something happens: "in the kitchen"."""
    return place_table(IN, noun_phrases(random, ROOMS, kinds=_PLACE_KINDS, adjective=adjective))


def surroundings(random: Random, *, adjective: float) -> Table:
    """Return a table of phrases that say where or for whom something is bought or found: a room, or a person."""
    if random.random() < 0.6:
        return rooms(random, adjective=adjective)
    return place_table(FOR, noun_phrases(random, PERSONS, kinds=_PLACE_KINDS, adjective=adjective))


def places(random: Random, *, direction: bool = False, adjective: float = 0.3) -> Table:
    """Return a table of phrases that say where or with whom something happens or, if `direction`, where or to whom one goes."""
    weights = {"room": 0.5, "shore": 0.2, "person": 0.2} | ({} if direction else {"home": 0.05, "building": 0.15})
    choice = pick(random, weights)
    if choice == "home":
        return words_table(words.HOME)
    if choice == "building":
        return place_table(BEFORE, noun_phrases(random, BUILDINGS, kinds=_PLACE_KINDS, adjective=adjective))
    if choice == "shore":
        return place_table(TO if direction else AT, noun_phrases(random, SHORES, kinds={"core": 1}, adjective=adjective))
    group = {"room": ROOMS, "person": PERSONS}[choice]
    prepositions = {"room": (IN, INTO), "person": (WITH, TO_PERSON)}[choice][direction]
    return place_table(prepositions, noun_phrases(random, group, kinds=_PLACE_KINDS, adjective=adjective))


def tops(random: Random) -> Table:
    """Return a table of phrases for the place to which something is moved: on, under or next to something."""
    return place_table(ONTO, noun_phrases(random, TOPS, kinds=_PLACE_KINDS, adjective=0.2))
