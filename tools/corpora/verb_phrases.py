"""Verb phrases: all forms of a verb in a clause, in every tense of the corpus and for every position in a German clause."""

from functools import cache
from typing import NamedTuple

from tools.corpora.inflection import (
    ENGLISH_BE,
    SPECIAL_PRESENT,
    THIRD,
    english_parts,
    english_third,
    german_imperative,
    german_past,
    german_present,
)
from tools.corpora.phrases import Table, build_table
from tools.corpora.verbs import Verb

# tense → English words before the verb ({s} becomes s in the third person singular), and the German verb that goes with the
# infinitive: a modal verb, its past, or werden
MODALS = {
    "can": ("can|#x", "können"),
    "must": ("must|#x", "müssen"),
    "may": ("may|#x", "dürfen"),
    "should": ("should|#x", "sollten"),
    "want": ("want{s}|#x to|~#x+~#v", "wollen"),
    "would like": ("would|#x like|#x to|~#x+~#v", "möchten"),
    "could": ("could|#x", "konnte"),
    "had to": ("had|#x to|~#x+~#v", "musste"),
    "wanted": ("wanted|#x to|~#x+~#v", "wollte"),
    "future": ("will|#x", "werden"),
}
AUXILIARY_PAST = {"haben": "hatte", "sein": "war"}


class VerbPhrase(NamedTuple):
    """One verb in one tense for one person.

    English: `en` is the whole group after the subject ("does not see"); in questions, `aux` comes before the subject and `bare`
    after it (with a leading space). German: `fin` is the finite verb in second position, `no` the word nicht (with a leading
    space), `rest` the end of the verb bracket (prefix, participle or infinitive, with a leading space), `last` the whole verb
    at the end of a subordinate clause, and `preposition` the preposition of the verb (with a leading space).
    """

    en: str
    aux: str
    bare: str
    fin: str
    no: str
    rest: str
    last: str
    preposition: str


class VerbForm(NamedTuple):
    """A verb without a subject: imperative or infinitive; `fin` is empty for infinitives."""

    en: str
    fin: str
    no: str
    rest: str
    preposition: str


class _Stems(NamedTuple):
    """English forms of a verb, the words that it takes with it, and the marks of its German forms.

    `tail` is the English particle; `prefix` and `preposition` are German. These three have marks and a leading space.
    `finite_marks` are for a finite verb without its prefix, and `whole_marks` for a form that contains the prefix.
    """

    base: str
    third: str
    past: str
    participle: str
    tail: str
    finite_marks: str
    whole_marks: str
    prefix: str
    preposition: str


@cache
def _stems(verb: Verb) -> _Stems:
    base, past, participle = english_parts(verb.english)
    tied = bool(verb.particle) and not verb.loose
    mark = "~#v" if verb.loose else "#p" if verb.preposition else "#u"
    own = tied and bool(verb.prefix)
    return _Stems(
        base, english_third(base), past, participle,
        tail=f" {verb.particle}|{mark}" if verb.particle else "",
        finite_marks="#v+~#u" if own else "#v",
        whole_marks="#v+#u" if own else "#v",
        prefix=(f" {verb.prefix}|#u+~#v" if own else f" {verb.prefix}|#v") if verb.prefix else "",
        preposition=f" {verb.preposition}|#p" if verb.preposition else "",
    )  # fmt: skip


def verb_phrase(verb: Verb, tense: str, person: int, negation: str = "") -> VerbPhrase:
    """Conjugate a verb, and return its forms with marks.

    Args:
        verb: The verb.
        tense: "present", "past", "perfect", "pluperfect" or a key of `MODALS`.
        person: 0 to 4, as in `inflection`.
        negation: "" for none, "nicht", or "kein" if the German object is negated and only the English verb has "not".
    """
    stems, group = _stems(verb), _english(verb, tense, person)
    not_ = " not|N" if negation else ""
    aux, bare, plain = group
    if tense == "can" and negation:
        english = f"cannot|#x+N{bare}"
    elif tense in ("want", "would like", "had to", "wanted") and negation:
        raise ValueError(f"tense {tense!r} has no negation in the corpus")
    else:
        english = f"{aux}{not_}{bare}" if negation else plain
    finite, whole = _german(verb, tense, person)
    bracket = whole or stems.prefix
    if whole:
        last = f"{whole.strip()} {finite}"
    else:
        word, _, marks = finite.partition("|")
        last = f"{verb.prefix}{word}|{stems.whole_marks if verb.prefix else marks}"
    return VerbPhrase(
        english, aux, bare, finite, " nicht|N" if negation == "nicht" else "", bracket, last, stems.preposition
    )  # fmt: skip


def _english(verb: Verb, tense: str, person: int) -> tuple[str, str, str]:
    """Return the auxiliary of questions and negations, the words after it (with a leading space), and a statement's verb."""
    stems, third = _stems(verb), person == THIRD
    base = f" {stems.base}|#v{stems.tail}"
    if verb.german.startswith("sein ") and tense in ENGLISH_BE:
        finite = f"{ENGLISH_BE[tense][person]}|#v"
        return finite, "", finite
    if tense == "present":
        form = stems.third if third else stems.base
        return ("does|~#v" if third else "do|~#v"), base, f"{form}|#v{stems.tail}"
    if tense == "past":
        return "did|~#v", base, f"{stems.past}|#v{stems.tail}"
    if tense in ("perfect", "pluperfect"):
        aux = ("has|#x" if third else "have|#x") if tense == "perfect" else "had|#x"
        group = f" {stems.participle}|#v{stems.tail}"
        return aux, group, aux + group
    modal = MODALS[tense][0]
    plain = modal.format(s="s" if third else "") + base
    if tense in ("want", "wanted", "had to"):
        infinitive = {"want": "want|#x", "wanted": "want|#x", "had to": "have|#x"}[tense] + " to|~#x+~#v"
        helper = "did|~#x" if tense != "want" else "does|~#x" if third else "do|~#x"
        return helper, f" {infinitive}{base}", plain
    if tense == "would like":
        return "would|#x", f" like|#x to|~#x+~#v{base}", plain
    return modal, base, plain


def _german(verb: Verb, tense: str, person: int) -> tuple[str, str]:
    """Return the finite verb, and the participle or infinitive (with a leading space; empty in simple tenses)."""
    stems = _stems(verb)
    infinitive, third, past, participle = verb.german.split()
    if tense == "present":
        return f"{german_present(infinitive, third)[person]}|{stems.finite_marks}", ""
    if tense == "past":
        return f"{german_past(past)[person]}|{stems.finite_marks}", ""
    if tense in ("perfect", "pluperfect"):
        auxiliary = "sein" if verb.being else "haben"
        forms = SPECIAL_PRESENT[auxiliary] if tense == "perfect" else german_past(AUXILIARY_PAST[auxiliary])
        return f"{forms[person]}|#x+~#v", f" {verb.prefix}{participle}|{stems.whole_marks}+~#x"
    modal = MODALS[tense][1]
    forms = SPECIAL_PRESENT[modal] if modal in SPECIAL_PRESENT else german_past(modal)
    return f"{forms[person]}|#x", f" {verb.prefix}{infinitive}|{stems.whole_marks}"


@cache
def verb_tables(verbs: tuple[Verb, ...], tenses: tuple[str, ...], negation: str = "") -> tuple[Table, ...]:
    """Return, for each of the five persons, a table of all these verbs in all these tenses."""
    return tuple(
        build_table(verb_phrase(verb, tense, person, negation) for verb in verbs for tense in tenses) for person in range(5)
    )


@cache
def imperative_table(verbs: tuple[Verb, ...], negation: str = "") -> Table:
    """Return a table of imperatives in English and German, such as "open" and "mach … auf" (the object replaces "…").

    With a negation, they are negated: "do not open".
    """
    rows = []
    for verb in verbs:
        stems = _stems(verb)
        infinitive, third, *_ = verb.german.split()
        english = f"{stems.base}|#v{stems.tail}"
        rows.append(
            VerbForm(
                f"do|~#v not|N {english}" if negation else english,
                f"{german_imperative(infinitive, third)}|{stems.finite_marks}",
                " nicht|N" if negation == "nicht" else "",
                stems.prefix,
                stems.preposition,
            )
        )
    return build_table(rows)


@cache
def infinitive_table(verbs: tuple[Verb, ...]) -> Table:
    """Return a table of infinitives with to and zu: "to open", "aufzumachen"; "to see", "zu sehen"."""
    rows = []
    for verb in verbs:
        stems = _stems(verb)
        infinitive = verb.german.split()[0]
        if verb.prefix:
            english, german = "to|~#v+~#z", f" {verb.prefix}zu{infinitive}|{stems.whole_marks}"
        else:
            english, german = "to|#z", f" zu|#z {infinitive}|#v"
        rows.append(VerbForm(f"{english} {stems.base}|#v{stems.tail}", "", "", german, stems.preposition))
    return build_table(rows)
