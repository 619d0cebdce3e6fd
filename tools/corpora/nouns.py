"""The nouns of the built-in corpus, grouped by their roles in a sentence. The data are in `nouns.tsv`.

A noun has its singular and plural in English and German, and its gender (m, f, n). `weak` is the accusative and dative of a
weak noun (der Junge, den Jungen). An English name with a space is a compound in German: "kitchen table" is "Küchentisch", and
"door of the kitchen" is "Küchentür". Nouns that are ambiguous in German are left out: nouns with one form for both numbers
("sheep"), with two genders, or with two German translations.
"""

from itertools import groupby
from typing import NamedTuple

from tools.corpora.tables import read_table


class Noun(NamedTuple):
    """One noun in both languages."""

    singular: str
    plural: str
    german: str
    german_plural: str
    gender: str
    weak: str = ""


_GROUPS = {
    group: tuple(Noun(**{name: row[name] for name in Noun._fields}) for row in rows)
    for group, rows in groupby(read_table("nouns.tsv"), lambda row: row["group"])
}
PERSONS = _GROUPS["persons"]
ANIMALS = _GROUPS["animals"]
FOODS = _GROUPS["foods"]
DRINKS = _GROUPS["drinks"]
THINGS = _GROUPS["things"]
TEXTS = _GROUPS["texts"]
OPENABLES = _GROUPS["openables"]
DEVICES = _GROUPS["devices"]
ROOMS = _GROUPS["rooms"]  # after "in", "into" and "through"
BUILDINGS = _GROUPS["buildings"]  # after "behind" and "in front of"
SHORES = _GROUPS["shores"]  # after "at" and "to"
TOPS = _GROUPS["tops"]  # after "on", "under" and "next to"
NAMES = (("Anna", "f"), ("Maria", "f"), ("Julia", "f"), ("Peter", "m"), ("Paul", "m"), ("Thomas", "m"))
