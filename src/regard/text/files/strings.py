"""Strings from files: their Unicode form, and a short form for messages and reports."""

import unicodedata
from collections.abc import Iterable
from typing import Literal

from regard.errors import printable


def quoted(text: str, most: int = 60, mark: str = "'") -> str:
    """Return text in quotation marks, in one line; a text that is too long is truncated and ends with `…`.

    Args:
        text: Any text.
        most: Maximum number of characters of the text that are kept.
        mark: The quotation mark.
    """
    short = " ".join(text[: 4 * most].split())
    cut = len(short) > most or len(text) > 4 * most
    return f"{mark}{printable(short[:most])}{'…' if cut else ''}{mark}"


def normalise(texts: Iterable[str], form: str) -> list[str]:
    """Strip texts, and bring them into a Unicode form: `nfc`, `nfkc` or `none`."""
    if form != "none":
        texts = list(texts)
        upper: Literal["NFC", "NFKC"] = "NFC" if form == "nfc" else "NFKC"
        # One quick check for the whole block: characters never combine across a line end.
        if not unicodedata.is_normalized(upper, "\n".join(texts)):
            texts = [unicodedata.normalize(upper, text) for text in texts]
    return [text.strip() for text in texts]


def is_unicode(text: str) -> bool:
    """Return True if a text has no lone surrogates, which come from bytes that are not UTF-8, or from damaged JSON escapes."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
