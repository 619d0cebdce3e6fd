"""The adjectives, pronouns, determiners and fixed phrases of the built-in corpus.

A fixed phrase is written with its word alignment: words of the two sides with a common mark are aligned (see `marks`).
"""

from typing import NamedTuple


class Adjective(NamedTuple):
    """One adjective in both languages; `stem` is the form before endings if it differs from the German base ("teur-")."""

    english: str
    comparative: str
    german: str
    german_comparative: str
    stem: str = ""


OLD = Adjective("old", "older", "alt", "älter")
YOUNG = Adjective("young", "younger", "jung", "jünger")
SMALL = Adjective("small", "smaller", "klein", "kleiner")
BIG = Adjective("big", "bigger", "groß", "größer")
FRIENDLY = Adjective("friendly", "friendlier", "freundlich", "freundlicher")
RICH = Adjective("rich", "richer", "reich", "reicher")
NEW = Adjective("new", "newer", "neu", "neuer")
RED = Adjective("red", "", "rot", "")
BLACK = Adjective("black", "", "schwarz", "")
EXPENSIVE = Adjective("expensive", "", "teuer", "", "teur")
BEAUTIFUL = Adjective("beautiful", "", "schön", "")
DARK = Adjective("dark", "darker", "dunkel", "dunkler", "dunkl")
SWEET = Adjective("sweet", "sweeter", "süß", "süßer")
FRESH = Adjective("fresh", "", "frisch", "")
COLD = Adjective("cold", "colder", "kalt", "kälter")
HOT = Adjective("hot", "hotter", "heiß", "heißer")
LONG = Adjective("long", "longer", "lang", "länger")
TIRED = Adjective("tired", "", "müde", "")
HUNGRY = Adjective("hungry", "", "hungrig", "")
HAPPY = Adjective("happy", "happier", "glücklich", "glücklicher")
SAD = Adjective("sad", "sadder", "traurig", "trauriger")

PERSON_ADJECTIVES = (OLD, YOUNG, SMALL, FRIENDLY, RICH)
ANIMAL_ADJECTIVES = (OLD, SMALL, BIG, BLACK)
THING_ADJECTIVES = (OLD, NEW, SMALL, BIG, RED, BLACK, EXPENSIVE, BEAUTIFUL)
FOOD_ADJECTIVES = (SMALL, BIG, SWEET, FRESH, RED)
DRINK_ADJECTIVES = (COLD, HOT, FRESH)
TEXT_ADJECTIVES = (OLD, NEW, BEAUTIFUL, LONG)
PLACE_ADJECTIVES = (OLD, NEW, SMALL, BIG, BEAUTIFUL, DARK)
SHORE_ADJECTIVES = (BIG, BEAUTIFUL, COLD)

# Persons and things share no state, so that the state tells whether a German "er" means "he" or "it" in "weil er … ist".
PERSON_STATES = (TIRED, HUNGRY, HAPPY, SAD, YOUNG, RICH, FRIENDLY)
ANIMAL_STATES = (TIRED, HUNGRY, HAPPY, OLD, YOUNG, BIG, SMALL, BLACK)
THING_STATES = (OLD, NEW, EXPENSIVE, BEAUTIFUL, SMALL, BIG, RED)
FOOD_STATES = (SWEET, FRESH, RED, BIG)
TEXT_STATES = (OLD, NEW, BEAUTIFUL, LONG)
COMPARED = (OLD, YOUNG, SMALL, BIG, FRIENDLY, RICH, HAPPY, SAD)

# name → English determiner and stem of the German one
SINGULAR_DETERMINERS = {
    "the": ("the", "der"), "a": ("a", "ein"), "this": ("this", "dies"), "every": ("every", "jed"),
    "my": ("my", "mein"), "your": ("your", "dein"), "his": ("his", "sein"), "her": ("her", "ihr"), "our": ("our", "unser"),
    "no": ("a", "kein"), "none": ("", "kein"), "bare": ("", ""),
}  # fmt: skip
PLURAL_DETERMINERS = {
    "the": ("the", "der"), "this": ("these", "dies"),
    "my": ("my", "mein"), "your": ("your", "dein"), "his": ("his", "sein"), "her": ("her", "ihr"), "our": ("our", "unser"),
    "bare": ("", ""), "two": ("two", "zwei"), "three": ("three", "drei"), "many": ("many", "viel"), "no": ("", "kein"),
}  # fmt: skip

# English subject and object, German nominative, accusative and dative, person 0–4 (see `inflection`)
PRONOUNS = {
    "i": ("I", "me", "ich", "mich", "mir", 0),
    "you": ("you", "you", "du", "dich", "dir", 1),
    "he": ("he", "him", "er", "ihn", "ihm", 2),
    "she": ("she", "her", "sie", "sie", "ihr", 2),
    "it-m": ("it", "it", "er", "ihn", "ihm", 2),
    "it-f": ("it", "it", "sie", "sie", "ihr", 2),
    "it-n": ("it", "it", "es", "es", "ihm", 2),
    "we": ("we", "us", "wir", "uns", "uns", 3),
    "they": ("they", "them", "sie", "sie", "ihnen", 4),
}  # fmt: skip
REFERENTS = tuple(PRONOUNS)

PRESENT_TIMES = (
    ("today|#t", "heute|#t"), ("now|#t", "jetzt|#t"), ("every|#t day|#d", "jeden|#t Tag|#d"),
    ("every|#t morning|#d", "jeden|#t Morgen|#d"), ("in|#p the|#p evening|#d", "am|#p Abend|#d"),
    ("on|#p Monday|#d", "am|#p Montag|#d"), ("on|#p Sunday|#d", "am|#p Sonntag|#d"), ("in|#p winter|#d", "im|#p Winter|#d"),
)  # fmt: skip
PAST_TIMES = (
    ("yesterday|#t", "gestern|#t"), ("last|#t week|#d", "letzte|#t Woche|#d"), ("last|#t year|#d", "letztes|#t Jahr|#d"),
    ("on|#p Monday|#d", "am|#p Montag|#d"), ("on|#p Sunday|#d", "am|#p Sonntag|#d"),
    ("in|#p the|#p evening|#d", "am|#p Abend|#d"), ("two|#t days|#d ago|#p", "vor|#p zwei|#t Tagen|#d"),
)  # fmt: skip
PERFECT_TIMES = (
    ("today|#t", "heute|#t"), ("this|#t week|#d", "diese|#t Woche|#d"), ("this|#t year|#d", "dieses|#t Jahr|#d"),
)  # fmt: skip
FUTURE_TIMES = (
    ("tomorrow|#t", "morgen|#t"), ("soon|#t", "bald|#t"), ("next|#t week|#d", "nächste|#t Woche|#d"),
    ("next|#t year|#d", "nächstes|#t Jahr|#d"), ("on|#p Monday|#d", "am|#p Montag|#d"), ("on|#p Sunday|#d", "am|#p Sonntag|#d"),
)  # fmt: skip
COMMAND_TIMES = (
    ("today|#t", "heute|#t"), ("now|#t", "jetzt|#t"), ("tomorrow|#t", "morgen|#t"), ("soon|#t", "bald|#t"),
    ("every|#t day|#d", "jeden|#t Tag|#d"), ("in|#p the|#p evening|#d", "am|#p Abend|#d"),
    ("on|#p Monday|#d", "am|#p Montag|#d"), ("on|#p Sunday|#d", "am|#p Sonntag|#d"),
)  # fmt: skip
HOME = (("at|#p home|#n", "zu|#p Hause|#n"),)

# conjunctions, by the tenses that may follow them
PRESENT_CONJUNCTIONS = (
    ("because|#c", "weil|#c"), ("although|#c", "obwohl|#c"), ("if|#c", "wenn|#c"), ("while|#c", "während|#c"),
    ("before|#c", "bevor|#c"),
)  # fmt: skip
PAST_CONJUNCTIONS = (
    ("because|#c", "weil|#c"), ("although|#c", "obwohl|#c"), ("when|#c", "als|#c"), ("while|#c", "während|#c"),
    ("before|#c", "bevor|#c"),
)  # fmt: skip
REASONS = (("because|#c", "weil|#c"), ("although|#c", "obwohl|#c"))
AFTER = (("after|#c", "nachdem|#c"),)
DEGREES = (("very|#d", "sehr|#d"), ("still|#d", "noch|#d"))
