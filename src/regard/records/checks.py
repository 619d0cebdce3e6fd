"""Checks of the fields of a record, from any source."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from regard.errors import DataError, ShapeError, nearest
from regard.records.views import sides

MAX_WORDS = 8192
"""Maximum length of each list of tokens, words or labels in a record from a file. Views are matrices over words, so this also
limits their size.
"""


def fields(data: object, where: str, *, newest: int, known: Collection[str], needed: Collection[str]) -> dict[str, Any]:
    """Check the fields of a record from a file that is not trusted, and return them without the version."""
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected a JSON object with the fields of a record, got a {type(data).__name__}")
    content = dict(data)
    version = content.pop("format_version", None)
    if type(version) is not int or not 1 <= version <= newest:
        raise DataError(
            f"{where}: format_version is {version!r}, expected 1 to {newest}: either this is not a record, or a newer version "
            "of regard wrote it; then install that version"
        )
    for name in content.keys() - set(known):
        raise DataError(f"{where}: a record has no field {name!r}{nearest(name, known)}")
    if missing := sorted(set(needed) - content.keys()):
        raise DataError(f"{where}: the record lacks {', '.join(missing)}")
    for name, value in content.items():
        if name in ("source_text", "target_text", "note", "reference") and not isinstance(value, str):
            if name != "reference" or value is not None:
                raise DataError(f"{where}: {name} must be text, got {type(value).__name__}")
        elif name != "weights" and isinstance(value, list | dict) and len(value) > MAX_WORDS:
            raise DataError(f"{where}: {name} has {len(value)} entries, expected at most {MAX_WORDS}")
    return content


def to_float32(name: str, array: Any) -> np.ndarray:
    """Return a read-only float32 copy of an array, a tensor on any device, or nested lists."""
    if hasattr(array, "detach"):  # a torch tensor, detected without importing torch; .float() because numpy has no bfloat16
        array = array.detach().float().cpu().numpy()
    try:
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, for which the caller raises an error
            result = np.array(array, dtype=np.float32, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} is not a matrix of numbers ({error}): give rows of equal length") from error
    result.setflags(write=False)
    return result


def weights(site: object, array: object, num_tokens: Mapping[str, int]) -> np.ndarray:
    """Return the weights of a site as float32, read-only, after comparing them with the number of tokens of each side."""
    if not isinstance(site, str):
        raise DataError(f"AttentionRecord: a site's name must be a string, got {site!r}")
    name = f"weights[{site!r}]"
    result = to_float32(name, array)
    rows, columns = sides(site)
    expected = (num_tokens[rows], num_tokens[columns])
    if result.ndim not in (2, 3) or result.shape[-2:] != expected or result.shape[0] == 0 < expected[0]:
        hint = ""
        if result.ndim == 4:
            hint = "; this looks like a batch: give one sentence of it, as in weights[0]"
        elif result.shape[-2:] == expected[::-1]:
            hint = "; rows and columns seem to be exchanged: give the transpose"
        axes = f"{rows[0]}, {columns[0]}".upper()
        raise ShapeError(
            f"{name} has shape {result.shape}, expected ({axes}) = {expected}, or with heads in front (H, …): one row for "
            f"each of the {expected[0]} {rows} tokens, one column for each of the {expected[1]} {columns} tokens{hint}"
        )
    if not np.isfinite(result).all():
        bad = int((~np.isfinite(result)).sum())
        raise DataError(f"{name} holds {bad} values that are NaN or infinite, expected finite weights")
    return result


def strings(name: str, values: object) -> tuple[str, ...]:
    """Return the values as a tuple of strings; raise an error for any other input, such as a single string."""
    items = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if isinstance(values, str) or not all(isinstance(x, str) for x in items):
        raise DataError(f"{name} must be a list of strings, got {_short(values)}")
    return tuple(map(str, items))


def word_of(side: str, values: Any, num_tokens: int, num_words: int) -> tuple[int, ...]:
    """Check and return the index of each token's word; it is −1 for a special token."""
    name = f"{side}_word_of"
    try:
        result = tuple(int(x) for x in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be a list of whole numbers, got {_short(values)}") from error
    if len(result) != num_tokens:
        raise ShapeError(f"{name} has {len(result)} entries, expected {num_tokens}: one for each of the {side}_tokens")
    for token, word in enumerate(result):
        if not -1 <= word < num_words:
            raise DataError(
                f"{name}[{token}] is {word}, expected an index into the {num_words} {side}_words, or -1 for a special symbol"
            )
    return result


def number(name: str, value: Any) -> float | None:
    """Return the value as a finite number, or None if it is None; otherwise raise an error."""
    if value is None:
        return None
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be a number or None, got {value!r}") from error
    if not np.isfinite(result):
        raise DataError(f"{name} must be finite or None, got {result}")
    return result


def probabilities(values: object) -> dict[str, float]:
    """Check and return the probability of each label. Values from 1 to 1.0001, which rounding can cause, become 1."""
    if not isinstance(values, Mapping) or not all(isinstance(label, str) for label in values):
        raise DataError(f"probabilities must map labels to numbers, got {_short(values)}")
    for label, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1.0001:
            raise DataError(f"probabilities[{label[:40]!r}] is {value!r}, expected a number from 0 to 1")
    return {label: min(float(value), 1.0) for label, value in values.items()}


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) < 80 else shown[:77] + "…"
