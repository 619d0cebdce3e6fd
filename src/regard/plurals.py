"""Counts with their nouns, in the singular where there is one."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as `1 label` or `1,200 labels`.

    Args:
        number: How many.
        noun: Singular.
        plural: Plural; the singular with an s if left out.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
