"""Clauses: predicates with nouns that fit them, as two parallel templates with slots.

When the corpus is built, a clause is drawn as a choice of *tables* (verbs, noun phrases, tenses); each sentence pair then takes
one row from each table. The German clause is stored in pieces: the parts of the verb, and the middle field (the words between
them). It can therefore be written verb-second, verb-first and verb-final (see `simple_sentences` and `complex_sentences`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tools.corpora import draw, verbs, words
from tools.corpora.draw import Group
from tools.corpora.phrases import Table, object_pronoun_table, words_table
from tools.corpora.verb_phrases import imperative_table, infinitive_table, verb_tables
from tools.corpora.verbs import Verb

_SLOT = re.compile(r"\{([a-z])\.")


class Slot(NamedTuple):
    """A slot in a sentence, filled by one of `tables`.

    If `by` is given, the attribute `attribute` of the row in slot `by` is the index of the table.
    """

    name: str
    tables: tuple[Table, ...]
    by: str = ""
    attribute: str = ""


@dataclass(frozen=True)
class Clause:
    """The part of a clause after its verb: English tail, German middle field, and the slots of both, beginning with the verb.

    `pronoun` is the template of the pronoun object at the beginning of the middle field, if there is one. This pronoun comes
    before adverbials, and before a subject that follows its verb ("heute sieht mich der Mann").
    """

    tail: str
    middle: str
    slots: tuple[Slot, ...]
    pronoun: str = ""

    def second(self) -> "Clause":
        """Return this clause as the second clause of a sentence, with the names of its slots in capitals."""
        return Clause(
            capitals(self.tail),
            capitals(self.middle),
            tuple(slot._replace(name=slot.name.upper(), by=slot.by.upper()) for slot in self.slots),
            capitals(self.pronoun),
        )

    @property
    def timed(self) -> str:
        """The middle field with an adverbial of time in slot t."""
        return self.pronoun + " {t.de}" + self.middle.removeprefix(self.pronoun)

    def behind(self, subject: str) -> str:
        """Return the subject and the middle field in the order that follows a finite verb ("[heute sieht] mich der Mann")."""
        return f"{self.pronoun} {subject}{self.middle.removeprefix(self.pronoun)}"


def capitals(template: str) -> str:
    """Return a template with the names of its slots in capitals."""
    return _SLOT.sub(lambda match: "{" + match[1].upper() + ".", template)


_TRANSITIVE = (
    (4, verbs.PERSON_VERBS, draw.PERSONS), (2, verbs.ANIMAL_VERBS, draw.ANIMALS), (5, verbs.THING_VERBS, draw.THINGS),
    (3, verbs.FOOD_VERBS, draw.FOODS), (2, verbs.DRINK_VERBS, draw.DRINKS), (3, verbs.TEXT_VERBS, draw.TEXTS),
    (3, verbs.OPEN_VERBS, draw.OPENABLES), (2, verbs.DEVICE_VERBS, draw.DEVICES),
)  # fmt: skip
_OTHER_VERBS = {
    "plain": (*verbs.PREFIX_VERBS, *verbs.PLACE_VERBS), "place": verbs.PLACE_VERBS, "motion": verbs.MOTION_VERBS,
    "accusative place": verbs.FINDING_VERBS, "dative": verbs.DATIVE_VERBS, "giving": verbs.GIVING_VERBS,
    "laying": verbs.LAYING_VERBS, "preposition": verbs.PREPOSITION_VERBS, "state": (verbs.BE,), "comparison": (verbs.BE,),
}  # fmt: skip
SHAPES = {
    "plain": 8, "place": 10, "motion": 8, "accusative": 32, "accusative place": 6, "dative": 7, "giving": 11, "laying": 5,
    "preposition": 5, "state": 8, "comparison": 4,
}  # fmt: skip
SHORT_SHAPES = ("plain", "place", "motion", "accusative", "dative", "preposition")
DEED_SHAPES = (*SHORT_SHAPES, "accusative place", "giving", "laying")
Verbs = Callable[[tuple[Verb, ...], str], Slot]


@dataclass(frozen=True)
class Choice:
    """Requirements of the surrounding sentence on a clause.

    Args:
        shapes: Allowed shapes of the clause.
        negated: Whether the clause is negated.
        object_pronouns: Allowed object pronouns; none with a pronoun subject, to avoid "I see me".
        adjective: Probability that a noun has an adjective, 0 to 1.
    """

    shapes: tuple[str, ...] = tuple(SHAPES)
    negated: bool = False
    object_pronouns: tuple[str, ...] = ("i", "you", "he", "she", "we")
    adjective: float = 0.4


def finite(tense: str, negated: bool, *, by: str = "s") -> Verbs:
    """Return a function that builds a slot of verbs in the tenses of a group; each verb agrees with the phrase in slot `by`."""
    tenses = draw.TENSE_GROUPS[tense][1 if negated else 0]
    return lambda used, negation: Slot("v", verb_tables(used, tenses, negation), by, "person")


def imperative(used: tuple[Verb, ...], negation: str) -> Slot:
    """Return a slot that is filled with a verb in the informal imperative; verbs of `INVOLUNTARY` are left out."""
    return Slot("v", (imperative_table(tuple(verb for verb in used if verb not in verbs.INVOLUNTARY), negation),))


def infinitive(used: tuple[Verb, ...], negation: str) -> Slot:
    """Return a slot of verbs in the infinitive with zu."""
    return Slot("v", (infinitive_table(used),))


def draw_predicate(random: Random, conjugate: Verbs, choice: Choice) -> Clause:
    """Draw a clause without its subject."""
    shape = draw.pick(random, {name: weight for name, weight in SHAPES.items() if name in choice.shapes})
    if shape == "accusative":
        return _accusative(random, conjugate, choice)
    verb = conjugate(_OTHER_VERBS[shape], "nicht" if choice.negated else "")
    return _BUILDERS[shape](random, verb, choice)


def _clause(tail: str, middle: str, *slots: Slot, pronoun: str = "") -> Clause:
    return Clause(tail, middle, slots, pronoun)


def _objects(random: Random, group: Group, choice: Choice) -> Slot:
    return Slot("o", (draw.noun_phrases(random, group, negated=choice.negated, adjective=choice.adjective),))


def _person(random: Random, choice: Choice, name: str, case: str) -> tuple[Slot, str]:
    """Return a slot for a person as an object, and a part of the German template, empty unless the object is a pronoun.

    A pronoun is the first part of the middle field: ` {o.acc}` for slot `o` in the accusative.
    """
    if choice.object_pronouns and random.random() < 0.3:
        return Slot(name, (object_pronoun_table(*choice.object_pronouns),)), f" {{{name}.{case}}}"
    return _objects(random, draw.PERSONS, choice)._replace(name=name), ""


def _accusative(random: Random, conjugate: Verbs, choice: Choice) -> Clause:
    _, used, group = random.choices(_TRANSITIVE, [weight for weight, _, _ in _TRANSITIVE])[0]
    pronoun, negation = "", "nicht" if choice.negated else ""
    if group.person:
        slot, pronoun = _person(random, choice, "o", "acc")
    elif choice.negated and random.random() < 0.5:
        negation, slot = "kein", Slot("o", (draw.noun_phrases(random, group, kinds={"no": 1}, adjective=choice.adjective),))
    else:
        slot = _objects(random, group, choice)
    return _clause(" {o.en}", " {o.acc}{v.no}", conjugate(used, negation), slot, pronoun=pronoun)


def _accusative_place(random: Random, verb: Slot, choice: Choice) -> Clause:
    place = Slot("p", (draw.surroundings(random, adjective=choice.adjective / 2),))
    return _clause(" {o.en} {p.en}", " {o.acc}{v.no} {p.de}", verb, _objects(random, draw.THINGS, choice), place)


def _plain(random: Random, verb: Slot, choice: Choice) -> Clause:
    return _clause("", "{v.no}", verb)


def _place(random: Random, verb: Slot, choice: Choice) -> Clause:
    return _clause(" {p.en}", "{v.no} {p.de}", verb, Slot("p", (draw.places(random, adjective=choice.adjective),)))


def _motion(random: Random, verb: Slot, choice: Choice) -> Clause:
    place = draw.places(random, direction=True, adjective=choice.adjective)
    return _clause(" {p.en}", "{v.no} {p.de}", verb, Slot("p", (place,)))


def _dative(random: Random, verb: Slot, choice: Choice) -> Clause:
    slot, pronoun = _person(random, choice, "o", "dat")
    return _clause(" {o.en}", " {o.dat}{v.no}", verb, slot, pronoun=pronoun)


def _giving(random: Random, verb: Slot, choice: Choice) -> Clause:
    recipient, pronoun = _person(random, choice, "r", "dat")
    gift = _objects(random, random.choice((draw.THINGS, draw.FOODS, draw.TEXTS)), choice)
    return _clause(" {r.en} {o.en}", " {r.dat} {o.acc}{v.no}", verb, recipient, gift, pronoun=pronoun)


def _laying(random: Random, verb: Slot, choice: Choice) -> Clause:
    place = Slot("p", (draw.tops(random),))
    return _clause(" {o.en} {p.en}", " {o.acc}{v.no} {p.de}", verb, _objects(random, draw.THINGS, choice), place)


def _preposition(random: Random, verb: Slot, choice: Choice) -> Clause:
    slot, _ = _person(random, choice, "o", "acc")
    return _clause(" {o.en}", "{v.no}{v.preposition} {o.acc}", verb, slot)


def _state(random: Random, verb: Slot, choice: Choice) -> Clause:
    return state_clause(random, draw.PERSONS, verb, choice)


def state_clause(random: Random, group: Group, verb: Slot, choice: Choice) -> Clause:
    """Draw a clause that says in which state a noun of the group is: "is tired", "is very tired"."""
    state = Slot("a", (words_table(tuple((f"{word.english}|#a", f"{word.german}|#a") for word in group.states)),))
    if not choice.negated and random.random() < 0.3:
        return _clause(" {d.en} {a.en}", " {d.de} {a.de}", verb, state, Slot("d", (words_table(words.DEGREES),)))
    return _clause(" {a.en}", "{v.no} {a.de}", verb, state)


def _comparison(random: Random, verb: Slot, choice: Choice) -> Clause:
    pairs = tuple((f"{word.comparative}|#a", f"{word.german_comparative}|#a") for word in words.COMPARED)
    slot = _objects(random, draw.PERSONS, choice)
    return _clause(" {a.en} than|L {o.en}", "{v.no} {a.de} als|L {o.nom}", verb, Slot("a", (words_table(pairs),)), slot)


_BUILDERS: dict[str, Callable[[Random, Slot, Choice], Clause]] = {
    "plain": _plain, "place": _place, "motion": _motion, "accusative place": _accusative_place, "dative": _dative,
    "giving": _giving, "laying": _laying, "preposition": _preposition, "state": _state, "comparison": _comparison,
}  # fmt: skip
