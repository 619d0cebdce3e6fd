"""Patterns of sentences with one clause: statements, fronted adverbials, questions, imperatives."""

from dataclasses import replace
from random import Random

from tools.corpora import draw, verbs, words
from tools.corpora.frames import (
    DEED_SHAPES,
    SHAPES,
    Choice,
    Clause,
    Slot,
    Verbs,
    draw_predicate,
    finite,
    imperative,
    state_clause,
)
from tools.corpora.inflection import THIRD, THIRD_PLURAL
from tools.corpora.patterns import Pattern
from tools.corpora.phrases import Table, pronoun_table, words_table
from tools.corpora.verb_phrases import verb_tables

STATIVE_TENSES = ("present", "past", "future")
_THERE = tuple(words_table(((f"there|#e {verb}|#v", "gibt|#v es|#e"),)) for verb in ("is", "are"))

_BRACKETS = ("perfect", "pluperfect", "future", "modal", "past modal")
_TENSES = tuple(tense for tense in draw.TENSE_WEIGHTS if tense != "wish")
_TO_FRIENDS = ("perfect", "future", "wish")
_REASONS = (("why|#w", "warum|#w"),)
_MOMENTS = (("when|#w", "wann|#w"),)  # not used in the perfect, to avoid "when has he …"


def draw_tense(random: Random, *among: str) -> str:
    """Draw a group of tenses by weight: one of `among`, or of all groups in statements if none is given."""
    return draw.pick(random, {name: draw.TENSE_WEIGHTS[name] for name in among or _TENSES})


def draw_clause(
    random: Random,
    tense: str,
    choice: Choice,
    *,
    subject: Table | None = None,
    pronoun: bool | None = None,
    negation: float = 0.12,
) -> tuple[tuple[Slot, ...], Clause]:
    """Draw a subject and its predicate, and return the slots of both and the clause of the predicate.

    Args:
        random: Source of randomness.
        tense: A group of tenses, a key of `draw.TENSE_GROUPS`.
        choice: Requirements on the predicate.
        subject: Table of subjects or pronouns; drawn if None.
        pronoun: If `subject` is None, whether the drawn subject is a pronoun; None for a random choice.
        negation: Probability that the clause is negated, 0 to 1.
    """
    negated = random.random() < negation
    if subject is None:
        subject, pronoun = draw.subjects(random, negated=negated, adjective=choice.adjective, pronoun=pronoun)
    else:
        pronoun = True
    shapes = choice.shapes if tense in STATIVE_TENSES else tuple(shape for shape in choice.shapes if shape in DEED_SHAPES)
    choice = replace(choice, negated=negated, shapes=shapes, object_pronouns=() if pronoun else choice.object_pronouns)
    clause = draw_predicate(random, finite(tense, negated), choice)
    return (Slot("s", (subject,)), *clause.slots), clause


def statement(random: Random) -> Pattern:
    """Draw a pattern of statements: the verb is second, and the subject or an adverbial of time is first."""
    tense = draw_tense(random)
    slots, clause = draw_clause(random, tense, Choice())
    if random.random() < 0.55:
        return Pattern("{s.en} {v.en}" + clause.tail + ".", "{s.nom} {v.fin}" + clause.middle + "{v.rest}.", slots)
    slots = (*slots, Slot("t", (words_table(draw.TENSE_GROUPS[tense][2]),)))
    if random.random() < 0.4:
        return Pattern("{s.en} {v.en}" + clause.tail + " {t.en}.", "{s.nom} {v.fin}" + clause.timed + "{v.rest}.", slots)
    return Pattern("{t.en} {s.en} {v.en}" + clause.tail + ".", "{t.de} {v.fin}" + clause.behind("{s.nom}") + "{v.rest}.", slots)


def fronted_place(random: Random) -> Pattern:
    """Draw a pattern of statements with a place first and the verb second."""
    slots, _ = draw_clause(random, draw_tense(random, "present", "past", "perfect"), Choice(("place",)), negation=0)
    return Pattern("{p.en} {s.en} {v.en}.", "{p.de} {v.fin} {s.nom}{v.rest}.", slots)


def there_is(random: Random) -> Pattern:
    """Draw a pattern of sentences that say that something exists: "gibt es" with the accusative."""
    group = random.choice((draw.PERSONS, draw.ANIMALS, draw.THINGS, draw.TEXTS))
    table = draw.noun_phrases(random, group, kinds={"indefinite": 1}, adjective=0.6)
    existence = tuple(_THERE[person == THIRD_PLURAL] for person in range(5))
    slots = (Slot("p", (draw.rooms(random),)), Slot("o", (table,)), Slot("v", existence, "o", "person"))
    return Pattern("{p.en} {v.en} {o.en}.", "{p.de} {v.de} {o.acc}.", slots)


def state(random: Random) -> Pattern:
    """Draw a pattern of statements about a state of animals or things, such as "is old"."""
    group = random.choice(draw.STATED)
    choice = Choice(negated=random.random() < 0.2)
    subject = draw.noun_phrases(random, group, subject=True, negated=choice.negated)
    verb = finite(draw_tense(random, "present", "past"), choice.negated)((verbs.BE,), "nicht" if choice.negated else "")
    clause = state_clause(random, group, verb, choice)
    slots = (Slot("s", (subject,)), *clause.slots)
    return Pattern("{s.en} {v.en}" + clause.tail + ".", "{s.nom} {v.fin}" + clause.middle + "{v.rest}.", slots)


def question(random: Random) -> Pattern:
    """Draw a pattern of yes-or-no questions with the verb first, or of questions with why or when; many use "du".

    Yes-or-no questions begin with an auxiliary, a modal or a form of sein, so that no rare word is capitalised.
    """
    you, asked = random.random() < 0.4, random.random() < 0.5
    tenses = _TO_FRIENDS if you else _TENSES if asked else _BRACKETS
    tense = draw_tense(random, *tenses)
    slots, clause = draw_clause(random, tense, Choice(), subject=pronoun_table("you") if you else None, negation=0)
    source, target = "{v.aux} {s.en}{v.bare}" + clause.tail + "?", "{v.fin}" + clause.behind("{s.nom}") + "{v.rest}?"
    if not asked:
        return Pattern(source, target, slots)
    word = Slot("w", (words_table(_REASONS if tense in ("perfect", "pluperfect") else _REASONS + _MOMENTS),))
    return Pattern("{w.en} " + source, "{w.de} " + target, (*slots, word))


def question_of_state(random: Random) -> Pattern:
    """Draw a pattern of questions about a state or a comparison ("is he tired?")."""
    you = random.random() < 0.4
    subject = pronoun_table("you") if you else None
    tense = "present" if you else draw_tense(random, "present", "past")
    slots, clause = draw_clause(random, tense, Choice(("state", "comparison")), subject=subject, negation=0)
    return Pattern("{v.aux} {s.en}" + clause.tail + "?", "{v.fin} {s.nom}" + clause.middle + "?", slots)


def question_of_object(random: Random) -> Pattern:
    """Draw a pattern of questions about the object or the place of an action: what, whom, where, where to."""
    source, target, used = random.choice(
        (
            ("what|W", "was|W", verbs.WHAT_VERBS),
            ("whom|W", "wen|W", verbs.PERSON_VERBS),
            ("whom|W", "wem|W", verbs.DATIVE_VERBS),
            ("where|W", "wo|W", verbs.PLACE_VERBS),
            ("where|W", "wohin|W", verbs.MOTION_VERBS),
        )
    )
    you = random.random() < 0.3
    tense = draw_tense(random, *_TO_FRIENDS) if you else draw_tense(random)
    subject = pronoun_table("you") if you else draw.subjects(random)[0]
    slots = (Slot("s", (subject,)), finite(tense, False)(used, ""))
    return Pattern(source + " {v.aux} {s.en}{v.bare}?", target + " {v.fin} {s.nom}{v.rest}?", slots)


def question_of_subject(random: Random) -> Pattern:
    """Draw a pattern of questions with who."""
    tense = draw_tense(random)
    shapes = tuple(SHAPES) if tense in STATIVE_TENSES else DEED_SHAPES
    clause = draw_predicate(random, _third(tense), Choice(shapes))
    return Pattern("who|W {v.en}" + clause.tail + "?", "wer|W {v.fin}" + clause.middle + "{v.rest}?", clause.slots)


def _third(tense: str) -> Verbs:
    """Return a function that builds a slot of verbs in the third person singular, in the tenses of a group."""
    tenses = draw.TENSE_GROUPS[tense][0]
    return lambda used, negation: Slot("v", (verb_tables(used, tenses, negation)[THIRD],))


def command(random: Random) -> Pattern:
    """Draw a pattern of commands to a friend; some patterns are negated."""
    negated = random.random() < 0.25
    shapes = tuple(shape for shape in DEED_SHAPES if shape != "accusative place")
    clause = draw_predicate(random, imperative, Choice(shapes, negated, ("i", "he", "she", "we")))
    if negated or random.random() < 0.25:
        return Pattern("please|B {v.en}" + clause.tail + "!", "bitte|B {v.fin}" + clause.middle + "{v.rest}!", clause.slots)
    slots = (*clause.slots, Slot("t", (words_table(words.COMMAND_TIMES),)))
    return Pattern("please|B {v.en}" + clause.tail + " {t.en}!", "bitte|B {v.fin}" + clause.timed + "{v.rest}!", slots)
