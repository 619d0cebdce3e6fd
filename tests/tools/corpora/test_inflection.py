"""Every paradigm of the built-in corpus against tables written out by hand."""

import pytest
from tools.corpora import nouns, verbs, words
from tools.corpora.inflection import (
    dative_plural,
    english_parts,
    english_third,
    german_imperative,
    german_past,
    german_present,
)
from tools.corpora.marks import strip
from tools.corpora.nouns import Noun
from tools.corpora.phrases import german_determiner, noun_phrase, relative_tables
from tools.corpora.verb_phrases import infinitive_table, verb_phrase

DETERMINERS = {  # singular m, f, n and plural; each nominative, accusative, dative
    "the": "der den dem | die die der | das das dem | die die den",
    "a": "ein einen einem | eine eine einer | ein ein einem",
    "my": "mein meinen meinem | meine meine meiner | mein mein meinem | meine meine meinen",
    "her": "ihr ihren ihrem | ihre ihre ihrer | ihr ihr ihrem | ihre ihre ihren",
    "our": "unser unseren unserem | unsere unsere unserer | unser unser unserem | unsere unsere unseren",
    "no": "kein keinen keinem | keine keine keiner | kein kein keinem | keine keine keinen",
    "this": "dieser diesen diesem | diese diese dieser | dieses dieses diesem | diese diese diesen",
    "every": "jeder jeden jedem | jede jede jeder | jedes jedes jedem",
}
PLURAL_DETERMINERS = {"many": "viele viele vielen", "two": "zwei zwei zwei", "three": "drei drei drei"}


@pytest.mark.parametrize("determiner", DETERMINERS)
def test_determiners(determiner: str) -> None:
    for gender, forms in zip("mfnp", DETERMINERS[determiner].split(" | "), strict=False):
        assert [german_determiner(determiner, gender, case)[0] for case in range(3)] == forms.split()


@pytest.mark.parametrize("determiner", PLURAL_DETERMINERS)
def test_plural_determiners(determiner: str) -> None:
    forms = PLURAL_DETERMINERS[determiner].split()
    assert [german_determiner(determiner, "p", case)[0] for case in range(3)] == forms


TABLE = Noun("table", "tables", "Tisch", "Tische", "m")
LAMP = Noun("lamp", "lamps", "Lampe", "Lampen", "f")
BOOK = Noun("book", "books", "Buch", "Bücher", "n")
PHRASES = [  # noun, determiner, plural, English, nominative, accusative, dative
    (TABLE, "the", False, "the old table", "der alte Tisch", "den alten Tisch", "dem alten Tisch"),
    (LAMP, "the", False, "the old lamp", "die alte Lampe", "die alte Lampe", "der alten Lampe"),
    (BOOK, "the", False, "the old book", "das alte Buch", "das alte Buch", "dem alten Buch"),
    (BOOK, "the", True, "the old books", "die alten Bücher", "die alten Bücher", "den alten Büchern"),
    (TABLE, "a", False, "an old table", "ein alter Tisch", "einen alten Tisch", "einem alten Tisch"),
    (LAMP, "a", False, "an old lamp", "eine alte Lampe", "eine alte Lampe", "einer alten Lampe"),
    (BOOK, "a", False, "an old book", "ein altes Buch", "ein altes Buch", "einem alten Buch"),
    (TABLE, "my", True, "my old tables", "meine alten Tische", "meine alten Tische", "meinen alten Tischen"),
    (LAMP, "every", False, "every old lamp", "jede alte Lampe", "jede alte Lampe", "jeder alten Lampe"),
    (TABLE, "this", False, "this old table", "dieser alte Tisch", "diesen alten Tisch", "diesem alten Tisch"),
    (TABLE, "bare", True, "old tables", "alte Tische", "alte Tische", "alten Tischen"),
    (LAMP, "two", True, "two old lamps", "zwei alte Lampen", "zwei alte Lampen", "zwei alten Lampen"),
    (BOOK, "many", True, "many old books", "viele alte Bücher", "viele alte Bücher", "vielen alten Büchern"),
    (BOOK, "no", True, "old books", "keine alten Bücher", "keine alten Bücher", "keinen alten Büchern"),
    (TABLE, "no", False, "an old table", "kein alter Tisch", "keinen alten Tisch", "keinem alten Tisch"),
]


@pytest.mark.parametrize(("noun", "determiner", "plural", "english", "nom", "acc", "dat"), PHRASES)
def test_noun_phrases(noun: Noun, determiner: str, plural: bool, english: str, nom: str, acc: str, dat: str) -> None:
    phrase = noun_phrase(noun, determiner, words.OLD, plural=plural)
    assert [strip(text) for text in phrase[:4]] == [english, nom, acc, dat]


@pytest.mark.parametrize(
    ("noun", "adjective", "nom", "acc", "dat"),
    [
        (nouns.DRINKS[0], words.HOT, "heißer Kaffee", "heißen Kaffee", "heißem Kaffee"),
        (nouns.DRINKS[2], words.COLD, "kalte Milch", "kalte Milch", "kalter Milch"),
        (nouns.DRINKS[3], words.COLD, "kaltes Wasser", "kaltes Wasser", "kaltem Wasser"),
    ],
)
def test_strong_endings_without_a_determiner(noun: Noun, adjective: words.Adjective, nom: str, acc: str, dat: str) -> None:
    assert [strip(text) for text in noun_phrase(noun, "bare", adjective)[1:4]] == [nom, acc, dat]


def test_stems_that_change_before_endings() -> None:
    assert strip(noun_phrase(TABLE, "the", words.EXPENSIVE).nom) == "der teure Tisch"
    assert strip(noun_phrase(TABLE, "a", words.DARK).acc) == "einen dunklen Tisch"


def test_weak_nouns_take_an_ending_outside_the_nominative() -> None:
    by_name = {noun.german: noun for noun in nouns.PERSONS}
    cases = {name: [strip(text) for text in noun_phrase(by_name[name], "the")[1:4]] for name in ("Junge", "Student", "Nachbar")}
    assert cases == {
        "Junge": ["der Junge", "den Jungen", "dem Jungen"],
        "Student": ["der Student", "den Studenten", "dem Studenten"],
        "Nachbar": ["der Nachbar", "den Nachbarn", "dem Nachbarn"],
    }


def test_dative_plurals() -> None:
    assert [dative_plural(word) for word in ("Hunde", "Bücher", "Frauen", "Radios", "Lehrer", "Schlüssel", "Kuchen")] == [
        "Hunden",
        "Büchern",
        "Frauen",
        "Radios",
        "Lehrern",
        "Schlüsseln",
        "Kuchen",
    ]


def test_english_articles() -> None:
    assert strip(noun_phrase(nouns.FOODS[0], "a").en) == "an apple"
    assert strip(noun_phrase(nouns.FOODS[0], "a", words.RED).en) == "a red apple"
    assert strip(noun_phrase(nouns.FOODS[2], "a", words.OLD).en) == "an old pear"


GERMAN_PRESENT = {
    "sehen sieht": "sehe siehst sieht sehen sehen",
    "essen isst": "esse isst isst essen essen",
    "finden findet": "finde findest findet finden finden",
    "arbeiten arbeitet": "arbeite arbeitest arbeitet arbeiten arbeiten",
    "sitzen sitzt": "sitze sitzt sitzt sitzen sitzen",
    "fahren fährt": "fahre fährst fährt fahren fahren",
    "laden lädt": "lade lädst lädt laden laden",
    "laufen läuft": "laufe läufst läuft laufen laufen",
    "nehmen nimmt": "nehme nimmst nimmt nehmen nehmen",
    "haben hat": "habe hast hat haben haben",
    "sein ist": "bin bist ist sind sind",
    "wissen weiß": "weiß weißt weiß wissen wissen",
    "werden wird": "werde wirst wird werden werden",
    "können kann": "kann kannst kann können können",
}


@pytest.mark.parametrize("verb", GERMAN_PRESENT)
def test_german_present(verb: str) -> None:
    assert list(german_present(*verb.split())) == GERMAN_PRESENT[verb].split()


@pytest.mark.parametrize(
    ("past", "forms"),
    [
        ("machte", "machte machtest machte machten machten"),
        ("sah", "sah sahst sah sahen sahen"),
        ("fand", "fand fandest fand fanden fanden"),
        ("aß", "aß aßest aß aßen aßen"),
        ("wusste", "wusste wusstest wusste wussten wussten"),
        ("war", "war warst war waren waren"),
    ],
)
def test_german_past(past: str, forms: str) -> None:
    assert list(german_past(past)) == forms.split()


def test_german_imperatives() -> None:
    rows = "sehen sieht:sieh essen isst:iss geben gibt:gib nehmen nimmt:nimm werfen wirft:wirf helfen hilft:hilf"
    rows += " schlafen schläft:schlaf laufen läuft:lauf laden lädt:lade warten wartet:warte arbeiten arbeitet:arbeite"
    rows += " machen macht:mach zeigen zeigt:zeig"
    words_of = rows.replace(":", " ").split()
    for infinitive, third, imperative in zip(words_of[::3], words_of[1::3], words_of[2::3], strict=True):
        assert german_imperative(infinitive, third) == imperative


def test_english_forms() -> None:
    assert [english_third(base) for base in ("see", "go", "carry", "play", "have", "close", "teach")] == [
        "sees",
        "goes",
        "carries",
        "plays",
        "has",
        "closes",
        "teaches",
    ]
    assert english_parts("love") == ("love", "loved", "loved")
    assert english_parts("carry") == ("carry", "carried", "carried")
    assert english_parts("play") == ("play", "played", "played")
    assert english_parts("write wrote written") == ("write", "wrote", "written")


VERB_PHRASES = [  # verb, tense, person, negation, English, finite, rest, last
    (verbs.VERBS["see"], "present", 2, "", "sees", "sieht", "", "sieht"),
    (verbs.VERBS["see"], "present", 2, "nicht", "does not see", "sieht", "", "sieht"),
    (verbs.VERBS["see"], "past", 4, "", "saw", "sahen", "", "sahen"),
    (verbs.VERBS["see"], "past", 0, "nicht", "did not see", "sah", "", "sah"),
    (verbs.VERBS["see"], "perfect", 2, "", "has seen", "hat", "gesehen", "gesehen hat"),
    (verbs.VERBS["go"], "perfect", 4, "", "have gone", "sind", "gegangen", "gegangen sind"),
    (verbs.VERBS["go"], "pluperfect", 2, "", "had gone", "war", "gegangen", "gegangen war"),
    (verbs.VERBS["help"], "pluperfect", 3, "", "had helped", "hatten", "geholfen", "geholfen hatten"),
    (verbs.VERBS["open"], "present", 0, "", "open", "mache", "auf", "aufmache"),
    (verbs.VERBS["open"], "perfect", 2, "", "has opened", "hat", "aufgemacht", "aufgemacht hat"),
    (verbs.VERBS["get_up"], "present", 2, "", "gets up", "steht", "auf", "aufsteht"),
    (verbs.VERBS["get_up"], "can", 2, "nicht", "cannot get up", "kann", "aufstehen", "aufstehen kann"),
    (verbs.VERBS["get_up"], "perfect", 2, "", "has got up", "ist", "aufgestanden", "aufgestanden ist"),
    (verbs.VERBS["look_for"], "future", 0, "", "will look for", "werde", "suchen", "suchen werde"),
    (verbs.VERBS["translate"], "perfect", 2, "", "has translated", "hat", "übersetzt", "übersetzt hat"),
    (verbs.VERBS["repair"], "perfect", 2, "", "has repaired", "hat", "repariert", "repariert hat"),
    (verbs.VERBS["sleep"], "want", 2, "", "wants to sleep", "will", "schlafen", "schlafen will"),
    (verbs.VERBS["sleep"], "would like", 4, "", "would like to sleep", "möchten", "schlafen", "schlafen möchten"),
    (verbs.VERBS["sleep"], "had to", 4, "", "had to sleep", "mussten", "schlafen", "schlafen mussten"),
    (verbs.BE, "present", 0, "nicht", "am not", "bin", "", "bin"),
    (verbs.BE, "past", 4, "", "were", "waren", "", "waren"),
    (verbs.BE, "future", 2, "", "will be", "wird", "sein", "sein wird"),
]


@pytest.mark.parametrize(("verb", "tense", "person", "negation", "english", "finite", "rest", "last"), VERB_PHRASES)
def test_verb_phrases(
    verb: verbs.Verb, tense: str, person: int, negation: str, english: str, finite: str, rest: str, last: str
) -> None:
    phrase = verb_phrase(verb, tense, person, negation)
    assert [strip(text).strip() for text in (phrase.en, phrase.fin, phrase.rest, phrase.last)] == [english, finite, rest, last]
    assert strip(phrase.no) == (" nicht" if negation == "nicht" else "")


@pytest.mark.parametrize(
    ("verb", "tense", "person", "aux", "bare"),
    [
        (verbs.VERBS["see"], "present", 2, "does", " see"),
        (verbs.VERBS["see"], "present", 1, "do", " see"),
        (verbs.VERBS["see"], "past", 2, "did", " see"),
        (verbs.VERBS["see"], "perfect", 1, "have", " seen"),
        (verbs.VERBS["see"], "want", 2, "does", " want to see"),
        (verbs.VERBS["see"], "had to", 2, "did", " have to see"),
        (verbs.VERBS["see"], "would like", 1, "would", " like to see"),
        (verbs.VERBS["turn_on"], "can", 2, "can", " turn on"),
        (verbs.BE, "present", 4, "are", ""),
    ],
)
def test_english_questions(verb: verbs.Verb, tense: str, person: int, aux: str, bare: str) -> None:
    phrase = verb_phrase(verb, tense, person)
    assert (strip(phrase.aux), strip(phrase.bare)) == (aux, bare)


def test_infinitives_with_zu() -> None:
    table = infinitive_table((verbs.VERBS["open"], verbs.VERBS["get_up"], verbs.VERBS["see"], verbs.VERBS["come_back"]))
    assert [(row.en, row.rest) for row in table.plain] == [
        ("to open", " aufzumachen"),
        ("to get up", " aufzustehen"),
        ("to see", " zu sehen"),
        ("to come back", " zurückzukommen"),
    ]


def test_relative_pronouns() -> None:
    assert [(row.en, row.whom, row.nom, row.acc) for table in relative_tables() for row in table.plain] == [
        ("who", "whom", "der", "den"),
        ("who", "whom", "die", "die"),
        ("who", "whom", "das", "das"),
        ("who", "whom", "die", "die"),
        ("which", "which", "der", "den"),
        ("which", "which", "die", "die"),
        ("which", "which", "das", "das"),
        ("which", "which", "die", "die"),
    ]
