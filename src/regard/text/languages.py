"""Languages: their names and codes in headers and settings, from the table `languages.txt`."""

import re
import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

from regard.errors import nearest

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)")
_LONGEST_NAME = 200
_SEPARATORS = re.compile(r"[\W_]+")
# Words that may follow or precede a language in the name of a column, such as `word` in `English word`.
_BESIDE_LANGUAGE = re.compile(
    r"(text|sentence|word|term)s?|translation|wort|worter|satz|satze|ubersetzung|mots?|texte|phrase|palabra|texto|frase|oracion|"
    r"parola|testo"
)


@lru_cache(4096)
def fold(name: str) -> str:
    """Return a name in lower case, without accents, as words with one space between them: `ReviewText` is `review text`."""
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", name[:_LONGEST_NAME]))
    folded = "".join(letter for letter in plain.casefold() if not unicodedata.combining(letter))
    return _SEPARATORS.sub(" ", folded).strip()


@cache
def _languages() -> dict[str, str]:
    """Return the code of each name and code of a language."""
    known: dict[str, str] = {}
    for line in (files("regard.text") / "languages.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            codes, names = line.split(" | ")
            known.update(dict.fromkeys((*codes.split(), *map(fold, names.split(", "))), codes.split()[0]))
    return known


def find_language(name: str, *, codes: bool = True) -> str | None:
    """Return the code of the language that a name or a code means, such as `fr` for `Français`, `fra` and `fr-CA`.

    If `codes` is False, only names count.
    """
    known, folded = _languages(), fold(name)
    whole = [folded] if codes or len(folded) > 3 or not folded.isascii() else []
    regional = re.fullmatch(r"([A-Za-z]{2,3})[-_]([A-Za-z]{2}|[A-Za-z]{4})", name.strip())
    if codes and regional and regional[2].casefold() not in known:
        whole.append(regional[1].casefold())
    return next((known[each] for each in whole if each in known), None)


def describe_unknown(setting: str, name: str) -> list[str]:
    """Return a line for reports if a setting names no language that regard knows; else an empty list."""
    if name in ("source", "target", "") or find_language(name):
        return []
    close = nearest(name, sorted(set(_languages().values())))
    return [f"{setting} is '{name}', no language that regard knows, so general rules split and join its texts{close}"]


def find_named_language(name: str) -> str | None:
    """Return the code of the language that a cell names: `en` for `English`, `English word` and `en`; None without one."""
    # Codes count only as the whole cell in lower case, because `Hi` and `No` are sentences.
    words = [re.sub(r"(?<=sch)(e|er|es|en)$", "", word) for word in fold(name).split()]
    kept = [word for word in words if not _BESIDE_LANGUAGE.fullmatch(word)]
    if kept and len(kept) < len(words):
        return find_language(" ".join(kept), codes=False)
    return find_language(name, codes=name.islower())


def find_languages(name: str) -> set[str]:
    """Return the codes of all languages that the words of a name mean, such as `de` for `sentence_de`."""
    folded = fold(name)
    return {code for code in map(find_language, (folded, *folded.split())) if code}
