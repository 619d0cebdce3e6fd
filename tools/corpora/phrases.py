"""Noun phrases and prepositional phrases, as tables from which a sentence takes one row by number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from tools.corpora.inflection import (
    ARTICLE,
    CONTRACTIONS,
    MIXED,
    RELATIVE,
    STRONG,
    THE,
    THIRD,
    THIRD_PLURAL,
    WEAK,
    Endings,
    german_noun,
)
from tools.corpora.marks import Words, strip_row
from tools.corpora.nouns import NAMES, Noun
from tools.corpora.words import PLURAL_DETERMINERS, PRONOUNS, REFERENTS, SINGULAR_DETERMINERS, Adjective

_GENDERS = "mfnp"


class NounPhrase(NamedTuple):
    """One noun phrase or pronoun: English, and German by case.

    `person` is the person with which the verb agrees, `referent` the pronoun for the phrase (index in `REFERENTS`), and
    `relative` its relative pronoun (index in the result of `relative_tables`).
    """

    en: str
    nom: str
    acc: str
    dat: str
    person: int
    referent: int
    relative: int


class Relative(NamedTuple):
    """A relative pronoun: English subject ("who", "which") and object ("whom", "which"), German nominative and accusative."""

    en: str
    whom: str
    nom: str
    acc: str


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that can fill a slot, with and without marks."""

    rows: Sequence[Any]
    plain: Sequence[Any]
    _longest: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def longest(self, name: str) -> int:
        """Return the maximum number of words in the field `name` of a row."""
        if name not in self._longest:
            self._longest[name] = max(len(getattr(row, name).split()) for row in self.plain)
        return self._longest[name]


def build_table(rows: Iterable[Any]) -> Table:
    """Build a table of marked rows and their plain forms."""
    kept = tuple(rows)
    return Table(kept, tuple(strip_row(row) for row in kept))


@cache
def words_table(pairs: tuple[tuple[str, str], ...]) -> Table:
    """Return a table of fixed phrases."""
    return build_table(Words(*pair) for pair in pairs)


@cache
def pronoun_table(*names: str) -> Table:
    """Return a table of subject pronouns with the given names, such as "he" or "it-f"."""
    return build_table(_pronoun(name, subject=True) for name in names)


@cache
def object_pronoun_table(*names: str) -> Table:
    """Return a table of object pronouns with the given names."""
    return build_table(_pronoun(name, subject=False) for name in names)


def _pronoun(name: str, *, subject: bool) -> NounPhrase:
    en_subject, en_object, nom, acc, dat, person = PRONOUNS[name]
    english = en_subject if subject else en_object
    return NounPhrase(f"{english}|#n", f"{nom}|#n", f"{acc}|#n", f"{dat}|#n", person, REFERENTS.index(name), 0)


@cache
def name_table() -> Table:
    """Return a table of the proper names."""
    return build_table(
        NounPhrase(
            f"{name}|#n", f"{name}|#n", f"{name}|#n", f"{name}|#n", THIRD, _referent(gender, True), _GENDERS.index(gender)
        )
        for name, gender in NAMES
    )


@cache
def noun_table(
    nouns: tuple[Noun, ...],
    singular: tuple[str, ...],
    plural: tuple[str, ...],
    adjectives: tuple[Adjective, ...] = (),
    *,
    person: bool = False,
) -> Table:
    """Return a table of all combinations of a determiner, an adjective (none if `adjectives` is empty) and a noun."""
    rows = []
    for noun in nouns:
        for determiner in singular:
            rows += [noun_phrase(noun, determiner, adjective, person=person) for adjective in adjectives or (None,)]
        for determiner in plural if noun.plural else ():
            rows += [
                noun_phrase(noun, determiner, adjective, plural=True, person=person) for adjective in adjectives or (None,)
            ]
    return build_table(rows)


def noun_phrase(
    noun: Noun, determiner: str, adjective: Adjective | None = None, *, plural: bool = False, person: bool = False
) -> NounPhrase:
    """Inflect determiner, adjective and noun in the three cases, and return them with marks.

    Args:
        noun: The noun.
        determiner: A key of `SINGULAR_DETERMINERS` or `PLURAL_DETERMINERS`.
        adjective: The adjective before the noun, if any.
        plural: Whether the noun is in the plural.
        person: Whether the noun is a person, whose pronouns are "who" and, by gender, "he" or "she" ("it" for a child).
    """
    gender = "p" if plural else noun.gender
    english, _ = (PLURAL_DETERMINERS if plural else SINGULAR_DETERMINERS)[determiner]
    words = ([adjective.english] if adjective else []) + [noun.plural if plural else noun.singular]
    if english == "a" and words[0][0] in "aeiou":
        english = "an"
    parts = [f"{english}|#d"] if english else []
    if adjective:
        parts.append(f"{adjective.english}|#a")
    parts.append(_mark_noun(words[-1]))
    nom, acc, dat = (_german_phrase(noun, determiner, adjective, gender, case) for case in range(3))
    relative = _GENDERS.index(gender) + (0 if person else 4)
    agreement = THIRD_PLURAL if plural else THIRD
    return NounPhrase(" ".join(parts), nom, acc, dat, agreement, _referent(gender, person), relative)


def _mark_noun(english: str) -> str:
    """Give both parts of a compound a sure link to the German word, and the words between them a possible link.

    In "door of the kitchen", "of the" have possible links.
    """
    return " ".join(f"{word}|{'~' if word in ('of', 'the') else ''}#n" for word in english.split())


def _german_phrase(noun: Noun, determiner: str, adjective: Adjective | None, gender: str, case: int) -> str:
    form, endings = german_determiner(determiner, gender, case)
    words = []
    if form:
        words.append(f"{form}|#d" + ("+N" if determiner in ("no", "none") else ""))
    if adjective:
        stem = (adjective.stem or adjective.german).removesuffix("e")
        words.append(f"{stem}{endings[gender][case]}|#a")
    words.append(german_noun(noun.german, noun.german_plural, noun.weak, gender)[case] + "|#n")
    return " ".join(words)


def german_determiner(determiner: str, gender: str, case: int) -> tuple[str, Endings]:
    """Return the German form of a determiner, and the endings of an adjective after it."""
    _, stem = (PLURAL_DETERMINERS if gender == "p" else SINGULAR_DETERMINERS)[determiner]
    if determiner == "the":
        return THE[gender][case], WEAK
    if determiner in ("this", "every"):
        return stem + STRONG[gender][case], WEAK
    if determiner == "many":
        return stem + STRONG[gender][case], STRONG
    if determiner in ("bare", "two", "three"):
        return stem, STRONG
    return stem + ARTICLE[gender][case], MIXED


def _referent(gender: str, person: bool) -> int:
    names = (
        {"m": "he", "f": "she", "n": "it-n", "p": "they"} if person else {"m": "it-m", "f": "it-f", "n": "it-n", "p": "they"}
    )
    return REFERENTS.index(names[gender])


@cache
def anaphor_tables(*, subject: bool) -> tuple[Table, ...]:
    """Return, for each entry of `REFERENTS`, a table that contains only this pronoun."""
    return tuple(build_table([_pronoun(name, subject=subject)]) for name in REFERENTS)


@cache
def relative_tables() -> tuple[Table, ...]:
    """Return a table for each value of `NounPhrase.relative`: one pronoun for persons (m, f, n, plural), then for things."""
    return tuple(
        build_table([Relative(f"{who}|#r", f"{whom}|#r", *(f"{form}|#r" for form in RELATIVE[gender]))])
        for who, whom in (("who", "whom"), ("which", "which"))
        for gender in _GENDERS
    )


@cache
def place_table(prepositions: tuple[tuple[str, str, str], ...], *tables: Table) -> Table:
    """Return a table of prepositional phrases: every preposition before every noun phrase.

    Args:
        prepositions: For each preposition the marked English and German text, and the German case ("acc" or "dat").
        tables: Noun phrases. A definite article contracts with the preposition: "im", "ans", "zur".
    """
    rows = []
    for english, german, case in prepositions:
        for table in tables:
            for noun in table.rows:
                phrase = getattr(noun, case)
                article, _, rest = phrase.partition(" ")
                contracted = CONTRACTIONS.get((german, article.removesuffix("|#d")))
                start = f"{contracted}|#p+#d {rest}" if contracted else f"{german}|#p {phrase}"
                rows.append(Words(f"{english} {noun.en}", start))
    return build_table(rows)
