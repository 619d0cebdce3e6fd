"""The verbs of the built-in corpus, grouped by the clauses that they fit. The data are in `verbs.tsv`.

A verb has its English principal parts ("see saw seen"; only the base for a regular verb), the German ones as in a dictionary
(infinitive, third person singular, past, participle), and the separable prefix. `being` means that the German perfect is formed
with "sein". `particle` is an English word of the verb that corresponds to the German prefix ("get up", "aufstehen") or, if
`loose`, to no German word ("look for", "suchen"). `preposition` is the corresponding German preposition ("wait for", "warten
auf"). Verbs with the same English form in present and past ("read", "put") are left out, because their German tense is
ambiguous.
"""

from typing import NamedTuple

from tools.corpora.tables import read_table


class Verb(NamedTuple):
    """One verb in both languages."""

    english: str
    german: str
    prefix: str = ""
    being: bool = False
    particle: str = ""
    loose: bool = False
    preposition: str = ""


_TEXTS = ("english", "german", "prefix", "particle", "preposition")
VERBS = {
    row["name"]: Verb(**{name: row[name] for name in _TEXTS}, being=row["being"] == "yes", loose=row["loose"] == "yes")
    for row in read_table("verbs.tsv")
}
"""All verbs by name."""


def _verbs(names: str) -> tuple[Verb, ...]:
    return tuple(map(VERBS.__getitem__, names.split()))


(BE,) = _verbs("be")
PERSON_VERBS = _verbs("see love know visit call invite understand find look_for")
ANIMAL_VERBS = _verbs("see love draw find look_for buy have")
THING_VERBS = _verbs("see buy sell find look_for need forget take carry have")
FINDING_VERBS = _verbs("buy find look_for forget")
FOOD_VERBS = _verbs("eat buy take sell")
DRINK_VERBS = _verbs("drink order buy")
TEXT_VERBS = _verbs("write translate understand forget")
OPEN_VERBS = _verbs("open close see")
DEVICE_VERBS = _verbs("turn_on turn_off repair buy")
DATIVE_VERBS = _verbs("help thank follow listen")
GIVING_VERBS = _verbs("give show send bring")
LAYING_VERBS = _verbs("lay throw")
PREPOSITION_VERBS = _verbs("wait_for think_of")
PLACE_VERBS = _verbs("sleep work play sit sing dance")
MOTION_VERBS = _verbs("go run drive")
PREFIX_VERBS = _verbs("get_up wake_up arrive come_back")
SAYING_VERBS = _verbs("say believe know_that hope")
TRYING_VERBS = _verbs("try promise begin forget")
WHAT_VERBS = _verbs("see buy sell find look_for need forget take carry eat drink write translate understand open close repair")
HANDLING_VERBS = _verbs("buy take carry see")
MEANT_VERBS = _verbs("need forget find sell")
INVOLUNTARY = _verbs("have need love know see find understand forget arrive get_up wake_up")
