"""Text from files in a short and printable form, for messages and reports."""


def shown(text: str) -> str:
    """Return text with control characters, and others that cannot be printed, as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def quoted(text: str, most: int = 60, mark: str = "'") -> str:
    """Return text in quotation marks, in one line; a text that is too long is truncated and ends with `…`.

    Args:
        text: Any text.
        most: Maximum number of characters of the text that are kept.
        mark: The quotation mark.
    """
    short = " ".join(text[: 4 * most].split())
    cut = len(short) > most or len(text) > 4 * most
    return f"{mark}{shown(short[:most])}{'…' if cut else ''}{mark}"
