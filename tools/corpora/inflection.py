"""Inflection: the forms of German and English words from their dictionary entries.

Cases are "nom", "acc", "dat" and genders "m", "f", "n", with "p" for the plural of all three. Persons are numbered 0 to 4:
ich, du, er/sie/es, wir, sie. The second person plural and the genitive do not occur in the corpus.
"""

Endings = dict[str, tuple[str, str, str]]  # gender → nominative, accusative, dative
FIRST, SECOND, THIRD, FIRST_PLURAL, THIRD_PLURAL = PERSONS = range(5)

# nom, acc, dat of each gender
THE: Endings = {"m": ("der", "den", "dem"), "f": ("die", "die", "der"), "n": ("das", "das", "dem"), "p": ("die", "die", "den")}
STRONG: Endings = {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "p": ("e", "e", "en")}
WEAK: Endings = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "p": ("en", "en", "en")}
MIXED: Endings = {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en"), "p": ("en", "en", "en")}
ARTICLE: Endings = {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "p": ("e", "e", "en")}
RELATIVE = {"m": ("der", "den"), "f": ("die", "die"), "n": ("das", "das"), "p": ("die", "die")}
CONTRACTIONS = {
    ("in", "dem"): "im", ("in", "das"): "ins", ("an", "dem"): "am", ("an", "das"): "ans",
    ("zu", "dem"): "zum", ("zu", "der"): "zur", ("von", "dem"): "vom", ("bei", "dem"): "beim",
}  # fmt: skip

SPECIAL_PRESENT = {
    "haben": ("habe", "hast", "hat", "haben", "haben"),
    "sein": ("bin", "bist", "ist", "sind", "sind"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wissen"),
    "werden": ("werde", "wirst", "wird", "werden", "werden"),
    "können": ("kann", "kannst", "kann", "können", "können"),
    "müssen": ("muss", "musst", "muss", "müssen", "müssen"),
    "dürfen": ("darf", "darfst", "darf", "dürfen", "dürfen"),
    "wollen": ("will", "willst", "will", "wollen", "wollen"),
    "möchten": ("möchte", "möchtest", "möchte", "möchten", "möchten"),
    "sollten": ("sollte", "solltest", "sollte", "sollten", "sollten"),
}
SPECIAL_IMPERATIVE = {"laden": "lade", "haben": "hab", "sein": "sei", "wissen": "wisse"}
ENGLISH_BE = {"present": ("am", "are", "is", "are", "are"), "past": ("was", "were", "was", "were", "were")}


def german_present(infinitive: str, third: str) -> tuple[str, ...]:
    """Return the present tense of a verb: ich, du, er, wir, sie.

    The second person singular has the stem of the third ("sieht": "siehst"). After a stem that ends in -s, -ß, -x or -z, the
    ending -st loses its s ("isst": "isst").
    """
    if infinitive in SPECIAL_PRESENT:
        return SPECIAL_PRESENT[infinitive]
    stem = third.removesuffix("t")
    second = stem + ("t" if stem[-1] in "sßxz" else "st")
    return (infinitive.removesuffix("n"), second, third, infinitive, infinitive)


def german_past(past: str) -> tuple[str, ...]:
    """Return the simple past of a verb, given its third person: with -te if weak ("machte"), without if strong ("sah")."""
    if past.endswith("te"):
        return (past, past + "st", past, past + "n", past + "n")
    second = past + ("est" if past[-1] in "sßtdz" else "st")
    return (past, second, past, past + "en", past + "en")


def german_imperative(infinitive: str, third: str) -> str:
    """Return the imperative singular: "mach", "warte"; a change e → i of the third person stays ("gib"), a → ä does not."""
    if infinitive in SPECIAL_IMPERATIVE:
        return SPECIAL_IMPERATIVE[infinitive]
    stem, changed = infinitive.removesuffix("en"), third.removesuffix("t")
    if changed != stem and "ä" not in changed and not changed.endswith("e"):
        return changed
    return stem + ("e" if changed.endswith("e") else "")


def english_parts(row: str) -> tuple[str, str, str]:
    """Return base, past and participle; a regular verb is given by its base only."""
    base, *rest = row.split()
    if rest:
        return base, rest[0], rest[1]
    past = base[:-1] + "ied" if base.endswith("y") and base[-2] not in "aeiou" else base.removesuffix("e") + "ed"
    return base, past, past


def english_third(base: str) -> str:
    """Return the third person singular: "sees", "goes", "tries", "has"."""
    if base == "have":
        return "has"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "o")) else "s")


def dative_plural(plural: str) -> str:
    """Add the -n of the dative plural if the plural does not end in -n or -s."""
    return plural if plural.endswith(("n", "s")) else plural + "n"


def german_noun(singular: str, plural: str, weak: str, gender: str) -> tuple[str, str, str]:
    """Return the noun in nominative, accusative and dative; the plural if `gender` is "p"."""
    if gender == "p":
        return plural, plural, dative_plural(plural)
    return singular, weak or singular, weak or singular
