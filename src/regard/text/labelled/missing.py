"""What stands in place of a label where there is none."""

_MISSING = frozenset(("nan", "NaN", "NAN", "-nan", "n/a", "N/A", "#N/A", "<NA>", "null", "NULL", "Null"))
_NONE = "None"


def is_missing(label: str, *, typed: bool) -> bool:
    """Return True if a label says that there is none, as programs write a missing value: NaN, N/A, null, and None in tables.

    `none`, `NONE` and `NA` are labels.

    Args:
        label: What the cell holds, stripped.
        typed: Whether values have types (JSON, Parquet), so that `None` is a word that someone wrote.
    """
    return label in _MISSING or (label == _NONE and not typed)
