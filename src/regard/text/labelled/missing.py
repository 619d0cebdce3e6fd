"""Values that mean that a label is missing."""

_MISSING = frozenset(("nan", "NaN", "NAN", "-nan", "n/a", "N/A", "#N/A", "<NA>", "null", "NULL", "Null"))
_NONE = "None"


def is_missing(label: str, *, typed: bool) -> bool:
    """Return True if a label is what programs write for a missing value: NaN, N/A, null, and None in tables.

    `none`, `NONE` and `NA` are ordinary labels.

    Args:
        label: Content of the cell, stripped.
        typed: Whether values have types (JSON, Parquet), so that `None` is an ordinary word.
    """
    return label in _MISSING or (label == _NONE and not typed)
