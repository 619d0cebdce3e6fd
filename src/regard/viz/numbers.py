"""Numbers as pictures, pages and terminals show them: rounded once, from the value itself, and the same way everywhere."""

import math

import numpy as np

FEWEST, MOST = 2, 12
"""Decimal places of weights: two where some weight is at least a tenth, more where all are smaller."""


def decimals(scale: float) -> int:
    """Return how many decimal places show weights up to a scale, so that the greatest has two digits that count.

    Args:
        scale: The greatest weight that there is; 0 if there is none.
    """
    if scale >= 100:
        return 0
    # A little more, because 0.01 in single precision is a little less.
    return min(MOST, max(FEWEST, 1 - math.floor(math.log10(1.001 * scale)))) if scale > 0 else FEWEST


def greatest(*matrices: np.ndarray) -> float:
    """Return the greatest absolute value in some arrays; 0 if there is none."""
    return max((float(np.abs(matrix).max()) for matrix in matrices if matrix.size), default=0.0)


def units(values: np.ndarray, places: int) -> list[int]:
    """Return values rounded to decimal places, as whole numbers of the last place, row by row."""
    # Through the text of `fixed`, because a product with 10**places would be rounded a second time.
    return [int(f"{value:.{places}f}".replace(".", "")) for value in np.asarray(values, np.float64).ravel().tolist()]


def fixed(value: float, places: int = FEWEST) -> str:
    """Return a number with so many decimal places, and never a negative zero."""
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def probability(value: float) -> str:
    """Return a probability to two decimal places; what is not certain is not shown as 0.00 or 1.00."""
    if 0 < value < 0.005:
        return "<0.01"
    if 0.995 <= value < 1:
        return ">0.99"
    return fixed(value)


def percent(share: float) -> str:
    """Return a share as a whole percentage; what is not all or nothing is not shown as 0% or 100%."""
    if 0 < share < 0.005:
        return "less than 1%"
    if 0.995 <= share < 1:
        return "more than 99%"
    return f"{share:.0%}"


def tick(value: float) -> str:
    """Return a round number on an axis or a colour bar, without zeros at the end."""
    return f"{value + 0.0:.3g}"


def amount(value: float, places: int) -> str:
    """Return a weight at the end of a colour bar: rounded like all weights, and zero as 0."""
    text = fixed(value, places)
    return text if float(text) else "0"
