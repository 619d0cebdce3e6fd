"""The nouns of the built-in corpus, by what they can do in a sentence; they are in `nouns.tsv`.

English singular and plural, German singular and plural, gender (m, f, n). `weak` is the oblique singular of a weak noun
(der Junge, den Jungen). An English name with a blank in it is a compound in German: "kitchen table" is "Küchentisch", and
"door of the kitchen" is "Küchentür". Nouns whose English hides something German must show are left out on purpose:
one form for both numbers ("sheep"), two genders for one word, two German words for one English one.
"""

from itertools import groupby
from typing import NamedTuple

from regard.demo.files import read_table


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
ROOMS = _GROUPS["rooms"]  # one is in them, and goes into them
BUILDINGS = _GROUPS["buildings"]  # one is behind them and in front of them
SHORES = _GROUPS["shores"]  # one is at them, and goes to them: an
TOPS = _GROUPS["tops"]  # things lie on and under them
NAMES = (("Anna", "f"), ("Maria", "f"), ("Julia", "f"), ("Peter", "m"), ("Paul", "m"), ("Thomas", "m"))
