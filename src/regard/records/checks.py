"""Checks of the fields of a record, from any source."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from regard.errors import DataError, ShapeError
from regard.records import segments
from regard.records.subwords import SPELLED_IN_BYTES
from regard.records.views import sides

_SCHEMES = ("", "characters", "tokens", *SPELLED_IN_BYTES)


def convert(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Check the fields of a record, and return them as tuples, numbers and arrays."""
    result = dict(fields)
    for side in ("source", "target"):
        words, tokens = (strings(f"{side}_{name}", fields[f"{side}_{name}"]) for name in ("words", "tokens"))
        owners = word_of(side, fields[f"{side}_word_of"], len(tokens), len(words))
        result |= {f"{side}_words": words, f"{side}_tokens": tokens, f"{side}_word_of": owners}
        result[f"{side}_segments"] = segments.check(f"{side}_segments", fields[f"{side}_segments"], owners)
        result[f"{side}_text"] = fields[f"{side}_text"] or segments.text(words, owners, result[f"{side}_segments"])
        if (scheme := fields[f"{side}_scheme"]) not in _SCHEMES:
            raise DataError(f"{side}_scheme is {scheme!r}, expected one of {', '.join(map(repr, _SCHEMES))}")
    result |= {name: number(name, fields[name]) for name in ("score", "log_probability")}
    if not isinstance(fields["target_is_read"], bool):
        raise DataError(f"target_is_read must be true or false, got {fields['target_is_read']!r}")
    result["probabilities"] = probabilities(fields["probabilities"])
    p_gen, size = to_float32("p_gen", fields["p_gen"]), len(result["target_tokens"])
    if p_gen.shape not in ((0,), (size,)) or not ((p_gen >= 0) & (p_gen <= 1)).all():
        raise DataError(
            f"p_gen is {_short(fields['p_gen'])}, expected a number from 0 to 1 for each of the {size} target_tokens"
        )
    result["p_gen"] = tuple(p_gen.tolist())
    sites = fields["weights"]
    if not isinstance(sites, Mapping) or not sites:
        raise DataError("AttentionRecord: weights must map at least one site to a matrix, such as {'cross': matrix}")
    num_tokens = {side: len(result[f"{side}_tokens"]) for side in ("source", "target")}
    return result | {"weights": {site: weights(site, array, num_tokens) for site, array in sites.items()}}


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
