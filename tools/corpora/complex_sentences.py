"""Patterns of sentences with two clauses: subordinate, relative, infinitive and coordinated clauses.

A German comma without an English counterpart has a possible link to the English word that begins the next clause.
"""

from random import Random

from tools.corpora import draw, verbs, words
from tools.corpora.draw import Group
from tools.corpora.frames import (
    DEED_SHAPES,
    SHORT_SHAPES,
    Choice,
    Clause,
    Slot,
    draw_predicate,
    finite,
    infinitive,
    state_clause,
)
from tools.corpora.patterns import Pattern
from tools.corpora.phrases import Table, anaphor_tables, name_table, pronoun_table, relative_tables, words_table
from tools.corpora.simple_sentences import draw_clause, draw_tense

_SHORT = Choice(SHORT_SHAPES, adjective=0.15)
_MIDDLING = Choice(DEED_SHAPES, adjective=0.2)
_CONJUNCTIONS = {"present": words.PRESENT_CONJUNCTIONS, "past": words.PAST_CONJUNCTIONS, "pluperfect": words.AFTER}


def _second(
    random: Random, tense: str, choice: Choice, *, anaphor: float, negation: float = 0.0
) -> tuple[tuple[Slot, ...], Clause]:
    """Draw a second clause, and return its slots, whose names are in capitals, and the clause.

    With probability `anaphor`, its subject is the pronoun for the subject of the first clause; otherwise its subject is not a
    pronoun. So if the second subject is a pronoun, its antecedent is known.
    """
    same = random.random() < anaphor
    slots, clause = draw_clause(random, tense, choice, pronoun=same, negation=negation)
    subject = Slot("S", anaphor_tables(subject=True), "s", "referent") if same else slots[0]._replace(name="S")
    second = clause.second()
    return (subject, *second.slots), second


def subordinate(random: Random) -> Pattern:
    """Draw a pattern with a main clause before or after one with weil, obwohl, wenn, als, während, bevor or nachdem."""
    tense = random.choice(("present", "present", "past", "past", "pluperfect"))
    main, behind = "past" if tense == "pluperfect" else tense, random.random() < 0.55
    slots, clause = draw_clause(random, main if behind else tense, _SHORT, negation=0.1)
    more, then = _second(random, tense if behind else main, _SHORT, anaphor=0.5)
    conjunction = Slot("k", (words_table(_CONJUNCTIONS[tense]),))
    if behind:
        source = "{s.en} {v.en}" + clause.tail + " {k.en} {S.en} {V.en}" + then.tail + "."
        target = "{s.nom} {v.fin}" + clause.middle + "{v.rest},|~kc {k.de} {S.nom}" + then.middle + " {V.last}."
        return Pattern(source, target, (*slots, *more, conjunction))
    source = "{k.en} {s.en} {v.en}" + clause.tail + ",|C {S.en} {V.en}" + then.tail + "."
    target = "{k.de} {s.nom}" + clause.middle + " {v.last},|C {V.fin}" + then.behind("{S.nom}") + "{V.rest}."
    return Pattern(source, target, (*slots, *more, conjunction))


def reason(random: Random) -> Pattern:
    """Draw a pattern with a weil or obwohl clause about the subject, named by a pronoun: "because she is tired"."""
    tense = draw_tense(random, "present", "past")
    slots, clause = draw_clause(random, tense, Choice(DEED_SHAPES, adjective=0.25), negation=0.1)
    return _with_reason(random, slots, clause, tense, "s", draw.PERSONS)


def reason_of_object(random: Random) -> Pattern:
    """Draw a pattern with a weil or obwohl clause about the object, named by a pronoun: "because it is new"."""
    tense = draw_tense(random, "present", "past")
    group, used = random.choice(
        ((draw.THINGS, verbs.THING_VERBS), (draw.FOODS, verbs.FOOD_VERBS), (draw.TEXTS, verbs.TEXT_VERBS))
    )
    slots = _seeing(random, tense, used, group)
    clause = Clause(" {o.en}", " {o.acc}", slots)
    return _with_reason(random, slots, clause, tense, "o", group)


def _seeing(random: Random, tense: str, used: tuple[verbs.Verb, ...], group: Group) -> tuple[Slot, Slot, Slot]:
    """Return slots for person, verb and thing; the person is never "it" or "they", so these pronouns mean the thing."""
    kind = draw.pick(random, {"phrase": 0.6, "name": 0.2, "pronoun": 0.2})
    if kind == "phrase":
        subject: Table = draw.noun_phrases(random, draw.ADULTS, kinds={"single": 1}, adjective=0.3)
    else:
        subject = name_table() if kind == "name" else pronoun_table("i", "he", "she", "we")
    thing = draw.noun_phrases(random, group, adjective=0.3)
    return Slot("s", (subject,)), finite(tense, False)(used, ""), Slot("o", (thing,))


def _with_reason(random: Random, slots: tuple[Slot, ...], clause: Clause, tense: str, antecedent: str, group: Group) -> Pattern:
    verb = finite(tense, False)((verbs.BE,), "")
    then = state_clause(random, group, verb, Choice()).second()
    pronoun = Slot("S", anaphor_tables(subject=True), antecedent, "referent")
    conjunction = Slot("k", (words_table(words.REASONS),))
    source = "{s.en} {v.en}" + clause.tail + " {k.en} {S.en} {V.en}" + then.tail + "."
    target = "{s.nom} {v.fin}" + clause.middle + "{v.rest},|~kc {k.de} {S.nom}" + then.middle + " {V.last}."
    return Pattern(source, target, (*slots, pronoun, *then.slots, conjunction))


def but(random: Random) -> Pattern:
    """Draw a pattern with a second main clause about the same person and thing: "…, but he does not need it"."""
    tense = draw_tense(random, "present", "past")
    slots = _seeing(random, tense, verbs.HANDLING_VERBS, draw.THINGS)
    negated = random.random() < 0.5
    verb = finite(tense, negated, by="S")(verbs.MEANT_VERBS, "nicht" if negated else "")._replace(name="V")
    more = (Slot("S", anaphor_tables(subject=True), "s", "referent"), Slot("O", anaphor_tables(subject=False), "o", "referent"))
    source = "{s.en} {v.en} {o.en},|C but|K {S.en} {V.en} {O.en}."
    target = "{s.nom} {v.fin} {o.acc}{v.rest},|C aber|K {S.nom} {V.fin} {O.acc}{V.no}{V.rest}."
    return Pattern(source, target, (*slots, *more, verb))


def coordination(random: Random) -> Pattern:
    """Draw a pattern with two predicates of one subject."""
    tense = draw_tense(random, "present", "past", "perfect", "future")
    slots, clause = draw_clause(random, tense, _SHORT, negation=0)
    then = draw_predicate(random, finite(tense, False), Choice(SHORT_SHAPES, object_pronouns=(), adjective=0.15)).second()
    then_slots = tuple(slot._replace(by="s") if slot.name == "V" else slot for slot in then.slots)
    source = "{s.en} {v.en}" + clause.tail + " and|K {V.en}" + then.tail + "."
    target = "{s.nom} {v.fin}" + clause.middle + "{v.rest} und|K {V.fin}" + then.middle + "{V.rest}."
    return Pattern(source, target, (*slots, *then_slots))


def that(random: Random) -> Pattern:
    """Draw a pattern with a verb of saying or believing, and a clause with dass, in which the verb is last."""
    main = random.choice(("present", "past"))
    told = ("present", "past", "perfect", "future", "modal") if main == "present" else ("past", "pluperfect", "past modal")
    tense = draw_tense(random, *told)
    subject = draw.subjects(random, adjective=0.2)[0]
    more, then = _second(random, tense, _MIDDLING, anaphor=0.3, negation=0.12)
    slots = (Slot("s", (subject,)), finite(main, False)(verbs.SAYING_VERBS, ""), *more)
    source = "{s.en} {v.en} that|T {S.en} {V.en}" + then.tail + "."
    target = "{s.nom} {v.fin}{v.rest},|~T dass|T {S.nom}" + then.middle + " {V.last}."
    return Pattern(source, target, slots)


def relative_subject(random: Random) -> Pattern:
    """Draw a pattern in which the subject has a relative clause: der, die, das by gender."""
    subject = draw.noun_phrases(random, draw.PERSONS, subject=True, adjective=0.2)
    tense = draw_tense(random, "present", "past", "perfect", "modal")
    main = draw_predicate(random, finite("present" if tense == "modal" else tense, False), _SHORT)
    told = draw_predicate(random, finite(tense, False), _SHORT).second()
    slots = (
        Slot("s", (subject,)), *main.slots, Slot("w", relative_tables(), "s", "relative"),
        *(slot._replace(by="s") if slot.name == "V" else slot for slot in told.slots),
    )  # fmt: skip
    source = "{s.en} {w.en} {V.en}" + told.tail + " {v.en}" + main.tail + "."
    target = "{s.nom},|~wr {w.nom}" + told.middle + " {V.last},|~wr {v.fin}" + main.middle + "{v.rest}."
    return Pattern(source, target, slots)


def relative_object(random: Random) -> Pattern:
    """Draw a pattern in which the object has a relative clause: den, die, das in the accusative, after the verb bracket."""
    tense = draw_tense(random, "present", "past", "perfect")
    subject, _ = draw.subjects(random, adjective=0.15)
    group, used = random.choice(
        ((draw.THINGS, verbs.THING_VERBS), (draw.TEXTS, verbs.TEXT_VERBS), (draw.PERSONS, verbs.PERSON_VERBS))
    )
    thing = draw.noun_phrases(random, group, adjective=0.25)
    other, _ = draw.subjects(random, adjective=0.15)
    slots = (
        Slot("s", (subject,)), finite(draw_tense(random, "present", "past", "perfect"), False)(used, ""), Slot("o", (thing,)),
        Slot("w", relative_tables(), "o", "relative"), Slot("S", (other,)),
        finite(tense, False, by="S")(used, "")._replace(name="V"),
    )  # fmt: skip
    source = "{s.en} {v.en} {o.en} {w.whom} {S.en} {V.en}."
    target = "{s.nom} {v.fin} {o.acc}{v.rest},|~wr {w.acc} {S.nom} {V.last}."
    return Pattern(source, target, slots)


def attempt(random: Random) -> Pattern:
    """Draw a pattern with an infinitive with zu; zu is inside a separable verb: "versucht, die Tür aufzumachen"."""
    tense = draw_tense(random)
    subject, pronoun = draw.subjects(random, adjective=0.2)
    deed = draw_predicate(
        random, infinitive, Choice(DEED_SHAPES, object_pronouns=() if pronoun else _SHORT.object_pronouns)
    ).second()
    first = (Slot("s", (subject,)), finite(tense, False)(verbs.TRYING_VERBS, ""))
    source = "{s.en} {v.en} {V.en}" + deed.tail + "."
    target = "{s.nom} {v.fin}{v.rest},|~Vz" + deed.middle + "{V.rest}."
    return Pattern(source, target, (*first, *deed.slots))


def purpose(random: Random) -> Pattern:
    """Draw a pattern with a clause of purpose: um … zu."""
    subject, _ = draw.subjects(random, adjective=0.15)
    place = draw.places(random, direction=True, adjective=0.15)
    slots = (Slot("s", (subject,)), finite(draw_tense(random), False)(verbs.MOTION_VERBS, ""), Slot("p", (place,)))
    deed = draw_predicate(random, infinitive, Choice(SHORT_SHAPES, object_pronouns=(), adjective=0.2)).second()
    source = "{s.en} {v.en} {p.en} in|U order|~U {V.en}" + deed.tail + "."
    target = "{s.nom} {v.fin} {p.de}{v.rest},|~U um|U" + deed.middle + "{V.rest}."
    return Pattern(source, target, (*slots, *deed.slots))
