"""Exact match and error rates: how many edits turn texts into their references."""

from collections.abc import Sequence

import numpy as np


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the smallest number of insertions, deletions and substitutions that turn one sequence into another.

    Reference:
        Levenshtein 1966, "Binary codes capable of correcting deletions, insertions, and reversals".
    """
    number: dict[str, int] = {}
    ids = np.array([number.setdefault(item, len(number)) for item in second], np.int64)
    places = np.arange(len(ids) + 1)
    row = places  # distances of the items read so far from each beginning of the second sequence
    for count, item in enumerate(first, 1):
        edited = np.minimum(row[1:] + 1, row[:-1] + (ids != number.get(item, -1)))
        # Each further insertion costs 1, so the minimum over all numbers of insertions is a running minimum.
        row = np.minimum.accumulate(np.append(count, edited) - places) + places
    return int(row[-1])


def error_rate(texts: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Return the number of edits that turn all sequences into their references, divided by the length of the references."""
    edits = sum(edit_distance(one, other) for one, other in zip(texts, references, strict=True) if one != other)
    return edits / max(sum(map(len, references)), 1)
