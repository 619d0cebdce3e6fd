"""What a record is checked for at its making, whoever made it."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from regard.errors import DataError, ShapeError


def to_float32(name: str, array: Any) -> np.ndarray:
    """A read-only float32 copy of an array, a tensor on any device, or nested lists."""
    if hasattr(array, "detach"):  # a torch tensor, told without importing torch; .float() because numpy has no bfloat16
        array = array.detach().float().cpu().numpy()
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which the caller refuses
            result = np.array(array, dtype=np.float32, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} is not a matrix of numbers ({error}): give rows of equal length") from error
    result.setflags(write=False)
    return result


def hint(shape: tuple[int, ...], wanted: tuple[int, int]) -> str:
    """What may have gone wrong where weights of one shape stand for another; empty where nothing suggests itself."""
    if shape[-2:] == wanted[::-1] and len(shape) in (2, 3):
        return "; rows and columns seem to be exchanged: give the transpose"
    if len(shape) == 4:
        return "; this looks like a batch: give one sentence of it, as in weights[0]"
    return ""


def strings(name: str, values: object) -> tuple[str, ...]:
    """A tuple of strings, and nothing that only looks like one."""
    items = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if isinstance(values, str) or not all(isinstance(x, str) for x in items):
        shown = repr(values)
        raise DataError(f"{name} must be a list of strings, got {shown if len(shown) < 80 else shown[:77] + '…'}")
    return tuple(map(str, items))


def word_of(side: str, values: Any, num_tokens: int, num_words: int) -> tuple[int, ...]:
    """For each token the index of its word, or −1."""
    name = f"{side}_word_of"
    try:
        result = tuple(int(x) for x in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be a list of whole numbers, got {values!r}") from error
    if len(result) != num_tokens:
        raise ShapeError(f"{name} has {len(result)} entries, expected {num_tokens}: one for each of the {side}_tokens")
    for token, word in enumerate(result):
        if not -1 <= word < num_words:
            raise DataError(
                f"{name}[{token}] is {word}, expected an index into the {num_words} {side}_words, or -1 for a special symbol"
            )
    return result


def number(name: str, value: Any) -> float:
    """A finite number."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be a number or None, got {value!r}") from error
    if not np.isfinite(result):
        raise DataError(f"{name} must be finite or None, got {result}")
    return result


def probabilities(values: object) -> dict[str, float]:
    """A probability for each label. Rounding may leave one a little above 1, which is then 1."""
    if not isinstance(values, Mapping) or not all(isinstance(label, str) for label in values):
        shown = repr(values)
        raise DataError(f"probabilities must map labels to numbers, got {shown if len(shown) < 80 else shown[:77] + '…'}")
    result = {}
    for label, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1.0001:
            raise DataError(f"probabilities[{label[:40]!r}] is {value!r}, expected a number from 0 to 1")
        result[label] = min(float(value), 1.0)
    return result
