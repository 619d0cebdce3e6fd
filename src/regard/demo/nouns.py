"""The nouns of the built-in corpus, by what they can do in a sentence.

English singular and plural, German singular and plural, gender (m, f, n). `weak` is the oblique singular of a weak noun
(der Junge, den Jungen). An English name with a blank in it is a compound in German: "kitchen table" is "Küchentisch", and
"door of the kitchen" is "Küchentür". Nouns whose English hides something German must show are left out on purpose:
one form for both numbers ("sheep"), two genders for one word, two German words for one English one.
"""

from typing import NamedTuple


class Noun(NamedTuple):
    """One noun in both languages."""

    singular: str
    plural: str
    german: str
    german_plural: str
    gender: str
    weak: str = ""


PERSONS = (
    Noun("man", "men", "Mann", "Männer", "m"),
    Noun("woman", "women", "Frau", "Frauen", "f"),
    Noun("child", "children", "Kind", "Kinder", "n"),
    Noun("boy", "boys", "Junge", "Jungen", "m", "Jungen"),
    Noun("student", "students", "Student", "Studenten", "m", "Studenten"),
    Noun("neighbour", "neighbours", "Nachbar", "Nachbarn", "m", "Nachbarn"),
    Noun("teacher", "teachers", "Lehrer", "Lehrer", "m"),
    Noun("doctor", "doctors", "Arzt", "Ärzte", "m"),
    Noun("friend", "friends", "Freund", "Freunde", "m"),
    Noun("brother", "brothers", "Bruder", "Brüder", "m"),
    Noun("sister", "sisters", "Schwester", "Schwestern", "f"),
    Noun("aunt", "aunts", "Tante", "Tanten", "f"),
    Noun("queen", "queens", "Königin", "Königinnen", "f"),
    Noun("daughter", "daughters", "Tochter", "Töchter", "f"),
)
ANIMALS = (
    Noun("dog", "dogs", "Hund", "Hunde", "m"),
    Noun("bird", "birds", "Vogel", "Vögel", "m"),
    Noun("cat", "cats", "Katze", "Katzen", "f"),
    Noun("horse", "horses", "Pferd", "Pferde", "n"),
)
FOODS = (
    Noun("apple", "apples", "Apfel", "Äpfel", "m"),
    Noun("cake", "cakes", "Kuchen", "Kuchen", "m"),
    Noun("pear", "pears", "Birne", "Birnen", "f"),
    Noun("egg", "eggs", "Ei", "Eier", "n"),
)
DRINKS = (
    Noun("coffee", "", "Kaffee", "", "m"),
    Noun("tea", "", "Tee", "", "m"),
    Noun("milk", "", "Milch", "", "f"),
    Noun("water", "", "Wasser", "", "n"),
)
THINGS = (
    Noun("ball", "balls", "Ball", "Bälle", "m"),
    Noun("key", "keys", "Schlüssel", "Schlüssel", "m"),
    Noun("bag", "bags", "Tasche", "Taschen", "f"),
    Noun("flower", "flowers", "Blume", "Blumen", "f"),
    Noun("picture", "pictures", "Bild", "Bilder", "n"),
    Noun("kitchen table", "kitchen tables", "Küchentisch", "Küchentische", "m"),
    Noun("garden chair", "garden chairs", "Gartenstuhl", "Gartenstühle", "m"),
    Noun("coffee cup", "coffee cups", "Kaffeetasse", "Kaffeetassen", "f"),
    Noun("school bag", "school bags", "Schultasche", "Schultaschen", "f"),
    Noun("picture book", "picture books", "Bilderbuch", "Bilderbücher", "n"),
)
TEXTS = (
    Noun("letter", "letters", "Brief", "Briefe", "m"),
    Noun("story", "stories", "Geschichte", "Geschichten", "f"),
    Noun("book", "books", "Buch", "Bücher", "n"),
    Noun("song", "songs", "Lied", "Lieder", "n"),
)
OPENABLES = (
    Noun("suitcase", "suitcases", "Koffer", "Koffer", "m"),
    Noun("door", "doors", "Tür", "Türen", "f"),
    Noun("window", "windows", "Fenster", "Fenster", "n"),
    Noun("door of the kitchen", "doors of the kitchen", "Küchentür", "Küchentüren", "f"),
    Noun("gate of the garden", "gates of the garden", "Gartentor", "Gartentore", "n"),
    Noun("window of the church", "windows of the church", "Kirchenfenster", "Kirchenfenster", "n"),
)
DEVICES = (
    Noun("computer", "computers", "Computer", "Computer", "m"),
    Noun("lamp", "lamps", "Lampe", "Lampen", "f"),
    Noun("radio", "radios", "Radio", "Radios", "n"),
)
ROOMS = (  # one is in them, and goes into them
    Noun("garden", "gardens", "Garten", "Gärten", "m"),
    Noun("forest", "forests", "Wald", "Wälder", "m"),
    Noun("kitchen", "kitchens", "Küche", "Küchen", "f"),
    Noun("city", "cities", "Stadt", "Städte", "f"),
    Noun("school", "schools", "Schule", "Schulen", "f"),
    Noun("house", "houses", "Haus", "Häuser", "n"),
    Noun("village", "villages", "Dorf", "Dörfer", "n"),
)
BUILDINGS = (  # one is behind them and in front of them
    ROOMS[4],
    ROOMS[5],
    Noun("church", "churches", "Kirche", "Kirchen", "f"),
)
SHORES = (  # one is at them, and goes to them: an
    Noun("lake", "lakes", "See", "Seen", "m"),
    Noun("beach", "beaches", "Strand", "Strände", "m"),
    Noun("sea", "seas", "Meer", "Meere", "n"),
)
TOPS = (  # things lie on and under them
    Noun("table", "tables", "Tisch", "Tische", "m"),
    Noun("bench", "benches", "Bank", "Bänke", "f"),
    Noun("bed", "beds", "Bett", "Betten", "n"),
)
NAMES = (("Anna", "f"), ("Maria", "f"), ("Julia", "f"), ("Peter", "m"), ("Paul", "m"), ("Thomas", "m"))
