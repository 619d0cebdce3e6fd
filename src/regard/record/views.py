"""From tokens to words: the arithmetic behind a record's views."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.record.alignment import Link


def sides(site: str) -> tuple[str, str]:
    """Whose tokens are a site's rows and its columns: encoder sites look at the source from the source, and so on."""
    if site.startswith("encoder"):
        return "source", "source"
    if site.startswith("decoder"):
        return "target", "target"
    return "target", "source"


def merge(
    weights: Float[np.ndarray, "T S"], row_of: Sequence[int], column_of: Sequence[int], num_words: tuple[int, int]
) -> Float[np.ndarray, "rows columns"]:
    """Sum the columns of each word and average the rows of each word; tokens of word −1 are left out.

    Args:
        weights: Over tokens.
        row_of: T word indices.
        column_of: S word indices.
        num_words: How many words there are down and across.

    Returns:
        Float32. Words without a token are zero.
    """
    row, column = np.asarray(row_of, int), np.asarray(column_of, int)
    keep_row, keep_column = row >= 0, column >= 0
    tokens = np.asarray(weights, np.float64)[keep_row][:, keep_column]
    summed = np.zeros((num_words[1], len(tokens)))
    np.add.at(summed, column[keep_column], tokens.T)
    result = np.zeros(num_words)
    np.add.at(result, row[keep_row], summed.T)
    count = np.bincount(row[keep_row], minlength=num_words[0])
    greatest = np.finfo(np.float32).max  # sums of the greatest weights stay finite
    return (result / np.maximum(count, 1)[:, None]).clip(-greatest, greatest).astype(np.float32)


def links(matrix: Float[np.ndarray, "T S"], threshold: float | None = None) -> list[Link]:
    """Links (source, output): the greatest weight of each row, or all that reach the threshold. Empty rows link to nothing."""
    if threshold is not None:
        rows, columns = np.nonzero(matrix >= threshold)
    else:
        rows = np.flatnonzero(matrix.any(axis=1)) if matrix.size else np.zeros(0, int)
        columns = matrix[rows].argmax(axis=1) if len(rows) else rows
    return sorted(zip(columns.tolist(), rows.tolist(), strict=True))
