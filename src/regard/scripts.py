"""Marks that end sentences, and scripts that put no spaces between words, such as those of Chinese, Japanese and Thai."""

import unicodedata
from functools import lru_cache

SENTENCE_ENDS = ".!?…。！？।॥؟۔։።။។៕"
"""Marks that end a sentence."""
# Beginnings of the names of these scripts' characters in Unicode.
_SPACELESS = (
    *("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "BOPOMOFO"),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ", "YI ", "TAI ", "NEW TAI LUE ", "JAVANESE ", "BALINESE "),
)
# Signs that join two consonants: the zero-width joiner, and those of Khmer, Myanmar, Tai Tham, Balinese and Javanese.
_JOINING = "\u200d\u17d2\u1039\u1a60\u1b44\ua9c0"


def is_spaceless(text: str) -> bool:
    """Return whether a text contains a character of a script that puts no spaces between words."""
    return not text.isascii() and any(map(_is_spaceless, text))


@lru_cache(1 << 14)
def _is_spaceless(letter: str) -> bool:
    return unicodedata.name(letter, "").startswith(_SPACELESS)


def ends_word(before: str, after: str) -> bool:
    """Return whether two neighbouring tokens are parts of different words, because the script there has no spaces."""
    if not before or not after or before[-1] in _JOINING or unicodedata.category(after[0]) in ("Mn", "Mc", "Me", "Cf"):
        return False  # a mark belongs to the character before it
    return is_spaceless(before[-3:] + after[0])
