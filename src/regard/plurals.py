"""Counts with their nouns, in the singular or the plural."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as `1 label`, `1,200 labels` or, with its own plural, `2 classes`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
