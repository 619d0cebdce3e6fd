"""Languages: their names and codes in headers and settings, and their frequent words in texts.

The table is `languages.txt`. Frequent words never choose a column; they only reveal that source and target are exchanged.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)")
_LONGEST_NAME = 200
_SEPARATORS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W\d_]+")
_BESIDE_LANGUAGE = re.compile(
    r"(text|sentence|word|term)s?|translation|wort|worter|satz|satze|ubersetzung|mots?|texte|phrase|palabra|texto|frase|oracion|"
    r"parola|testo"
)
"""Words that may follow or precede a language in the name of a column, such as `word` in `English word`."""
_COUNTED_INSIDE = ("ja", "ko", "th", "zh")
"""Languages whose frequent words are not separated by spaces."""
_ENOUGH_CHARACTERS = 150
_LEAST_SHARE = 0.12
"""Minimum share of the words that must be frequent words of a language to recognise it."""
_LEAD = 1.5
"""Minimum ratio of the number of frequent words of a language to the number of those of another."""


@lru_cache(4096)
def _fold(name: str) -> str:
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", name))
    folded = "".join(letter for letter in plain.casefold() if not unicodedata.combining(letter))
    return _SEPARATORS.sub(" ", folded).strip()


def fold(name: str) -> str:
    """Return a name in lower case, without accents, as words with one space between them: `ReviewText` is `review text`.

    Only the first 200 characters of a name count.
    """
    return _fold(name[:_LONGEST_NAME])


@cache
def _languages() -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    """Return the code of each name and code of a language, and the frequent words of languages by their codes."""
    known: dict[str, str] = {}
    frequent: dict[str, frozenset[str]] = {}
    for line in (files("regard.text") / "languages.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            codes, names, *words = line.split(" | ")
            code = codes.split()[0]
            known.update(dict.fromkeys((*codes.split(), *map(fold, names.split(", "))), code))
            frequent[code] = frozenset(" ".join(words).split())
    return known, frequent


def find_language(name: str, *, codes: bool = True) -> str | None:
    """Return the code of the language that a name or a code means, such as `fr` for `Français`, `fra` and `fr-CA`.

    Args:
        name: Name of a column, or value of a setting.
        codes: Whether codes such as `fr` count, not only names.
    """
    known, folded = _languages()[0], fold(name)
    whole = [folded] if codes or len(folded) > 3 or not folded.isascii() else []
    regional = re.fullmatch(r"([A-Za-z]{2,3})[-_]([A-Za-z]{2}|[A-Za-z]{4})", name.strip())
    if codes and regional and regional[2].casefold() not in known:
        whole.append(regional[1].casefold())
    return next((known[each] for each in whole if each in known), None)


def find_named_language(name: str, *, codes: bool = True) -> str | None:
    """Return the code of the language in the name of a column: `en` for `English` and `English word`; None without one.

    Args:
        name: Name of a column.
        codes: Whether codes such as `fr` count, if they are the whole name.
    """
    words = [re.sub(r"(?<=sch)(e|er|es|en)$", "", word) for word in fold(name).split()]
    kept = [word for word in words if not _BESIDE_LANGUAGE.fullmatch(word)]
    if kept and len(kept) < len(words):
        return find_language(" ".join(kept), codes=False)
    return find_language(name, codes=codes)


def find_languages(name: str) -> set[str]:
    """Return the codes of all languages that the words of a name mean, such as `de` for `sentence_de`."""
    folded = fold(name)
    return {code for code in map(find_language, (folded, *folded.split())) if code}


def are_exchanged(sources: Sequence[str], targets: Sequence[str], source: str, target: str) -> bool:
    """Return True if the sources are clearly in the language of the targets, and the targets in that of the sources.

    Args:
        sources: Some source texts.
        targets: Some target texts.
        source: Code of the language that the sources should have.
        target: Code of the language that the targets should have.
    """
    return _is_in(sources, target, source) and _is_in(targets, source, target)


def _is_in(texts: Iterable[str], language: str, other: str) -> bool:
    """Return True if texts have clearly more frequent words of one language than of another."""
    whole = "\n".join(texts).casefold()
    counts = Counter(_WORD.findall(whole))

    def count(code: str) -> int:
        words = _languages()[1][code]
        return sum(map(whole.count if code in _COUNTED_INSIDE else counts.__getitem__, words))

    enough = len(whole) >= _ENOUGH_CHARACTERS
    return enough and count(language) >= max(_LEAST_SHARE * counts.total(), _LEAD * count(other), 1)
