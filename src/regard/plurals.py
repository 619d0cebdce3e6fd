"""Counts with their nouns, in the singular or the plural."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as `1 label` or `1,200 labels`.

    Args:
        number: The number.
        noun: The noun in the singular.
        plural: The noun in the plural; if None, the singular with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
