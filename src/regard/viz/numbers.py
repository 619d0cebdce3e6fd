"""Numbers in pictures, pages and terminals, which are rounded once and in the same way everywhere."""

import math

import numpy as np

FEWEST, MOST = 2, 12
"""Minimum and maximum number of decimal places of weights below 100: two if one is at least 0.1, more if all are smaller."""


def decimals(scale: float) -> int:
    """Return the number of decimal places, from 2 to 12, that shows the first two significant digits of the largest weight.

    It is 0 if the largest weight is 100 or more, and 2 if there are no weights (`scale` 0).
    """
    if scale >= 100:
        return 0
    # The factor is needed because 0.01 in single precision is slightly less than 0.01.
    return min(MOST, max(FEWEST, 1 - math.floor(math.log10(1.001 * scale)))) if scale > 0 else FEWEST


def greatest(*matrices: np.ndarray) -> float:
    """Return the largest absolute value in some arrays; 0 without values."""
    return max((float(np.abs(matrix).max()) for matrix in matrices if matrix.size), default=0.0)


def units(values: np.ndarray, places: int) -> list[int]:
    """Return a flat list of the values times 10^places, rounded to integers: 0.25 with two places is 25."""
    # Use the digits of formatted numbers, because a product with 10**places would be rounded a second time.
    return [int(f"{value:.{places}f}".replace(".", "")) for value in np.asarray(values, np.float64).ravel().tolist()]


def fixed(value: float, places: int = FEWEST) -> str:
    """Return a number with `places` decimal places, and never a negative zero."""
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def blank_cells(places: int) -> str:
    """Return a sentence on cells whose weight rounds to zero, and which therefore have no number."""
    return f"Cells without a number: less than {0.5 * 0.1**places:.{places + 1}f}."


def probability(value: float) -> str:
    """Return a probability with two decimal places; only 0 and 1 themselves are shown as 0.00 and 1.00."""
    if 0 < value < 0.005:
        return "<0.01"
    if 0.995 <= value < 1:
        return ">0.99"
    return fixed(value)


def percent(share: float) -> str:
    """Return a share as a whole percentage; only 0 and 1 themselves are shown as 0% and 100%."""
    if 0 < share < 0.005:
        return "less than 1%"
    if 0.995 <= share < 1:
        return "more than 99%"
    return f"{share:.0%}"


def tick(value: float) -> str:
    """Return a number for an axis or a colour bar as text: at most three significant digits, without zeros at the end."""
    return f"{value + 0.0:.3g}"


def amount(value: float, places: int) -> str:
    """Return a weight at the end of a colour bar as text: rounded like all weights, and "0" for zero."""
    text = fixed(value, places)
    return text if float(text) else "0"
