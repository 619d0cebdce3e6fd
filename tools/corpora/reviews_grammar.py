"""The grammar of the built-in reviews: an outline and a label determine a pattern, whose texts are numbered.

An outline is a verdict between neutral sentences. The verdict has one or two sentiment words, each of the label's polarity, or
of the opposite polarity directly after a negator ("not good", "far from dull", "no masterpiece"). About half of the reviews
also have a concession: a clause about something else ("the poster looked dull"), whose polarity is random. The concession is
joined with "but", "yet", "although" or "while" if its polarity differs from the label, and otherwise with "and" or "just as".
Sentiment words also occur in names ("the bad guy").

The word before a sentiment word always shows its use: "is", "a", "and", "will" … in a verdict; a negator; "looked", "seemed",
"called it" in a concession; "the" in a name. So pairs of words are enough to find the label, and single words are not.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from math import prod
from random import Random
from typing import NamedTuple

from tools.corpora import reviews_words as words

LABELS = ("positive", "negative")
SHORTEST, LONGEST = 5, 40

_PLAIN = (
    "{title} is *{adjective}", "{title} is {degree} *{adjective}", "the {aspect} is *{adjective}",
    "the {aspect} of {title} is {degree} *{adjective}", "it is a *{adjective} {thing}", "{title} is a *{adjective} {thing}",
    "what a *{adjective} {thing}", "{title} is a *{noun}", "the {aspect} of {title} is a *{noun}", "the {aspect} *{past} me",
    "{title} *{past} us", "you will *{base} {title}", "i will *{base} the {aspect} of {title}",
    "the {aspect} is *{adjective} and *{special}", "{title} is a *{special} , *{adjective} {thing}",
    "the {aspect} is *{special} and {title} *{past} us",
)  # fmt: skip
_NEGATED = (
    "{title} is *not *{adjective}", "the {aspect} is *not *{adjective}", "the {aspect} of {title} is *never *{adjective}",
    "{title} is *hardly *{adjective}", "the {aspect} is *far *from *{adjective}", "it is *no *{adjective} {thing}",
    "{title} is *no *{noun}", "the {aspect} *never *{past} me", "{title} *hardly *{past} us", "you will *not *{base} {title}",
    "i do *not *{base} the {aspect} of {title}", "the {aspect} is *neither *{adjective} *nor *{special}",
)  # fmt: skip
_CONCESSIONS = (
    "the {teaser} looked {adjective}", "the last {thing} seemed {adjective}",
    "friends called it {adjective}",
)  # fmt: skip
_AGAINST = ("{C} , but {V} .", "{C} , yet {V} .", "although {C} , {V} .", "while {C} , {V} .", "{V} , although {C} .")
_ALONG = ("{C} , and {V} .", "just as {C} , {V} .", "{V} , just as {C} .", "{V} , and {C} .")

_ASIDES = (
    "we saw the {decoy} on the way to {place} .", "my {relative} talked about the {decoy} for {number} hours .",
    "{first} {last} came with us on {day} .", "it was {month} and we were in {place} .", "my {relative} lives in {place} .",
    "we met {first} near the {decoy} .", "there were {number} of us that {day} .",
)  # fmt: skip
_DOMAIN_ASIDES = {
    "film": ("{first} {last} plays a {job} from {place} .", "it runs for {number} minutes after the {decoy} enters ."),
    "restaurant": ("we ordered {dish} with {side} .", "{first} {last} cooks {dish} there since {month} ."),
    "hotel": ("we stayed for {number} nights in {month} .", "{first} {last} sat at the desk next to the {decoy} ."),
    "concert": ("{first} {last} played the {instrument} .", "they came from {place} and sang about the {decoy} ."),
    "phone": ("it comes in {color} and in {shade} .", "{first} {last} sold me {number} of them in {month} ."),
}
_ARTICLE = re.compile(r"\ba (?=[aeio]|u(?!se)|honest)")
_FIELD = re.compile(r"(\*?)(?:\{(\w+)\}|(\S+))")


class Slot(NamedTuple):
    """Alternatives for one position of a text, and whether they decide the label."""

    words: tuple[str, ...]
    decisive: bool


@dataclass(frozen=True)
class Outline:
    """The structure of a review, for both labels.

    `before` and `after` are neutral sentences, and `joined` is the template that joins verdict and concession. `flips`: whether
    the verdict is negated. `special` and `conceded_special`: whether the adjectives of the verdict and of the concession are
    specific to the domain. `differs`: whether the polarity of the concession differs from the label.
    """

    domain: str
    before: tuple[str, ...]
    verdict: str
    flips: bool
    special: bool
    concession: str = ""
    conceded_special: bool = False
    differs: bool = False
    joined: str = "{V} ."
    after: tuple[str, ...] = ()

    def pattern(self, label: int) -> "Pattern":
        """Return the pattern of all texts with this structure and a label: 0 for positive, 1 for negative."""
        verdict = self._slots(self.verdict, label ^ self.flips, self.special)
        concession = self._slots(self.concession, label ^ self.differs, self.conceded_special)
        slots = [slot for aside in self.before for slot in self._slots(aside, 0, False)]
        for word in self.joined.split():
            slots += {"{V}": verdict, "{C}": concession}.get(word) or [Slot((word,), False)]
        return Pattern((*slots, *(slot for aside in self.after for slot in self._slots(aside, 0, False))))

    def _slots(self, template: str, polarity: int, special: bool) -> list[Slot]:
        tables = _tables(self.domain, polarity, special)
        return [
            slot
            for star, name, word in _FIELD.findall(template)
            for slot in ([Slot(table, bool(star)) for table in tables[name]] if name else [Slot((word,), bool(star))])
        ]


@cache
def _tables(domain: str, polarity: int, special: bool) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the tables of words for each name in a template; `polarity` is 0 for positive words and 1 for negative ones."""

    def side(pairs: words.Pairs) -> tuple[tuple[str, ...]]:
        return (tuple(pair[polarity] for pair in pairs),)

    own = words.SPECIAL[domain]
    return {
        "adjective": side(own if special else words.ADJECTIVES), "special": side(own), "noun": side(words.NOUNS),
        "past": side(words.PAST_VERBS), "base": side(words.BASE_VERBS), "degree": (words.DEGREES,),
        "thing": (words.THINGS[domain],), "aspect": (words.ASPECTS[domain],), "teaser": (words.TEASERS[domain],),
        "title": (words.TITLE_FIRST, words.TITLE_LAST), "decoy": (words.DECOYS,), "first": (words.FIRST_NAMES,),
        "last": (words.LAST_NAMES,), "place": (words.PLACES,), "relative": (words.RELATIVES,), "day": (words.DAYS,),
        "month": (words.MONTHS,), "number": (words.NUMBERS,), "job": (words.JOBS,), "dish": (words.DISHES,),
        "instrument": (words.INSTRUMENTS,), "color": (words.COLORS,),
        "shade": (words.SHADES,), "side": (words.SIDES,),
    }  # fmt: skip


class Pattern:
    """A sequence of slots. The number of a text has one digit for each slot with several words (a mixed radix), which chooses
    the word.

    All alternatives of a slot have the same number of words, so the positions of the decisive words are the same in all texts.
    """

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self._tables = [slot.words for slot in slots if len(slot.words) > 1]
        self._frame = " ".join("%s" if len(slot.words) > 1 else slot.words[0] for slot in slots)
        self.size = prod(len(table) for table in self._tables)
        """Number of texts."""
        starts = tuple(accumulate((len(slot.words[0].split()) for slot in slots), initial=0))
        self.length = starts[-1]
        """Number of words of each text."""
        self.decisive = tuple(start for start, slot in zip(starts, slots, strict=False) if slot.decisive)

    def text(self, rank: int) -> str:
        """Return text number `rank`."""
        chosen = []
        for table in self._tables:
            rank, digit = divmod(rank, len(table))
            chosen.append(table[digit])
        return _ARTICLE.sub("an ", self._frame % tuple(chosen))


def draw_outline(random: Random, *, size: int) -> Outline:
    """Draw an outline that gives at least `size` texts of 5 to 40 words for each label."""
    while True:
        outline = _draw_verdict(random)
        pattern, wanted = outline.pattern(0), random.randint(SHORTEST, LONGEST - 4)
        asides = [*_ASIDES, *_DOMAIN_ASIDES[outline.domain]]
        random.shuffle(asides)
        while pattern.length < wanted or pattern.size < size:
            more = (asides.pop(),)
            before = random.random() < 0.5
            outline = replace(outline, before=outline.before + more) if before else replace(outline, after=outline.after + more)
            pattern = outline.pattern(0)
        if pattern.length <= LONGEST:
            return outline


def _draw_verdict(random: Random) -> Outline:
    negated = random.random() < 0.4
    outline = Outline(
        domain=random.choice(tuple(words.SPECIAL)),
        before=(),
        verdict=random.choice(_NEGATED if negated else _PLAIN),
        flips=negated,
        special=random.random() < 0.35,
    )
    if "special" in outline.verdict:
        outline = replace(outline, special=False)  # to avoid "dull and dull"
    if random.random() < 0.5:
        return outline
    differs = random.random() < 0.5
    return replace(
        outline,
        concession=random.choice(_CONCESSIONS),
        conceded_special=random.random() < 0.35,
        differs=differs,
        joined=random.choice(_AGAINST if differs else _ALONG),
    )
