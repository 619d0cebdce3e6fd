"""Counts with their nouns, in the singular or the plural."""


def plural(noun: str) -> str:
    """Return the plural of a regular noun: `words`, `patches`."""
    return noun + ("es" if noun.endswith("ch") else "s")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as `1 label`, `1,200 labels` or, with its own plural, `2 classes`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
