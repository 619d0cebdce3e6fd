"""Words as labels that are safe to draw and to print."""

import html
import unicodedata
from collections.abc import Iterable

_BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}

LEFT_TO_RIGHT = "\u200e"
"""An invisible mark with the direction of Latin letters."""


def label(word: str, limit: int = 48) -> str:
    """Return a word in the form in which it is shown, with at most `limit` characters.

    Control characters are written with a caret (escape is ^[), so that no word can move a terminal's cursor or break a file.
    Direction marks are removed, lone surrogates and other invalid characters become �, words without visible characters become
    ␣, and long words end with an ellipsis.
    """
    shown = "".join(_visible(character) for character in word[: limit + 1])
    # Boundary-neutral characters (BN), such as the zero-width space, have no width, and `isspace` does not know them.
    if all(letter.isspace() or unicodedata.bidirectional(letter) == "BN" for letter in shown):
        return "␣"
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def escaped(text: str, limit: int = 5000) -> str:
    """Return a text as `label` does, escaped for use in HTML, also as the value of an attribute."""
    return html.escape(label(text, limit), quote=True)


def runs_right_to_left(words: Iterable[str]) -> bool:
    """Return True if a text runs from right to left; as in browsers, the first letter that has a direction decides."""
    directions = (unicodedata.bidirectional(letter) for word in words for letter in word)
    return next((direction for direction in directions if direction in ("L", "R", "AL")), "L") != "L"


def isolated(word: str) -> str:
    """Return a word for use in a line that runs from left to right; a right-to-left word gets a mark after it.

    Without the mark, a number that follows the word would change places with it.
    """
    return word + LEFT_TO_RIGHT if runs_right_to_left([word]) else word


def left_to_right(line: str) -> str:
    """Return a line that runs from left to right, even if it begins with a right-to-left word."""
    return LEFT_TO_RIGHT + line if runs_right_to_left([line]) else line


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    if code in _BIDI:
        return ""
    category = unicodedata.category(character)
    if category in ("Cc", "Cs") or code & 0xFFFE == 0xFFFE:
        return "\ufffd"
    return " " if category in ("Zl", "Zp") else character
