"""Strings from files: their Unicode form, and a short form for messages and reports."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from regard.errors import printable

_FORMS: Mapping[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
INVISIBLE = "\u00ad\u061c\u180e\ufeff" + "".join(
    map(chr, (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070)))
)
"""Characters that are not shown: joiners, marks of direction, the byte order mark, the zero-width space, the soft hyphen."""
_EDGES = INVISIBLE + "".join(filter(str.isspace, map(chr, range(0x3001))))
# A part of a long run of characters that may be combining marks: they are not ASCII, and no letters or digits.
_MANY_MARKS = re.compile(r"(?<=[^\w\0-\x7f]{8})([^\w\0-\x7f]{32})")


def trim(text: str) -> str:
    """Strip white space and invisible characters."""
    return text.strip(_EDGES)


def quoted(text: str, most: int = 60, mark: str = "'") -> str:
    """Return text in quotation marks, in one line; a text of more than `most` characters is truncated and ends with `…`."""
    short = " ".join(text[: 4 * most].split())
    cut = len(short) > most or len(text) > 4 * most
    return f"{mark}{printable(short[:most])}{'…' if cut else ''}{mark}"


def normalise(texts: Iterable[str], form: str) -> list[str]:
    """Strip texts, and bring them into a Unicode form: `nfc`, `nfkc` or `none`."""
    if form != "none":
        texts = list(texts)
        # One quick check for the whole block: characters never combine across a line end.
        if not unicodedata.is_normalized(_FORMS[form], "\n".join(texts)):
            texts = [to_form(text, form) for text in texts]
    return [text.strip() for text in texts]


def to_form(text: str, form: str) -> str:
    """Bring a text into a Unicode form: `nfc`, `nfkc` or `none`."""
    # Python needs quadratic time to sort a run of combining marks, so long runs are divided into parts.
    if form == "none" or text.isascii():
        return text
    return "".join(unicodedata.normalize(_FORMS[form], part) for part in _MANY_MARKS.split(text))


def is_unicode(text: str) -> bool:
    """Return True if a text has no lone surrogates, which come from bytes that are not UTF-8, or from damaged JSON escapes."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def write_value(value: Any) -> str:
    """Return a JSON or Parquet value as text: whole numbers without a decimal point, booleans in lower case."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return ""  # a missing number
        return str(int(value)) if value.is_integer() else repr(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
