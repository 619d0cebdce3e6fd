"""Unicode forms of texts, and texts that are not Unicode."""

import unicodedata
from collections.abc import Iterable
from typing import Literal


def normalise(texts: Iterable[str], form: str) -> list[str]:
    """Strip texts, and bring them into a Unicode form: `nfc`, `nfkc` or `none`."""
    if form != "none":
        texts = list(texts)
        upper: Literal["NFC", "NFKC"] = "NFC" if form == "nfc" else "NFKC"
        # One quick check for the whole block: nothing composes across a line end.
        if not unicodedata.is_normalized(upper, "\n".join(texts)):
            texts = [unicodedata.normalize(upper, text) for text in texts]
    return [text.strip() for text in texts]


def is_unicode(text: str) -> bool:
    """Whether there are no lone surrogates: bytes that were not UTF-8, or halves of an escape in JSON."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
