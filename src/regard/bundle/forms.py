"""Checks of plain data from a file: names, types and shapes are compared with the expected ones before a value is used."""

from collections.abc import Mapping
from typing import Any

import torch

_LARGEST = 1 << 63
_KINDS: dict[type, tuple[type, ...]] = {float: (float, int), type(None): (type(None), float, int)}
_NAMES = {float: "a number", type(None): "a number or null", int: "a whole number", str: "a string", bool: "true or false"}
_NAMES |= {dict: "named values", list: "a list"}


def misfit(found: Any, own: Any, name: str) -> str:
    """Describe the first difference between the form of a value and the expected form; return an empty string if they match.

    Whole numbers of 2^63 or more, and of −2^63 or less, never match.

    Args:
        found: The value to check: plain data, which may contain tensors.
        own: A value of the expected form: a mapping with the same names, a tensor of the same shape and dtype, or any value of
            the same type. An empty mapping allows any mapping, a list any list, a float any number, and None a number or None.
        name: The name of the value, for the description.
    """
    if isinstance(own, torch.Tensor):
        if not isinstance(found, torch.Tensor) or found.is_meta or (found.shape, found.dtype) != (own.shape, own.dtype):
            tensor = isinstance(found, torch.Tensor) and not found.is_meta
            got = f"{found.dtype} {tuple(found.shape)}" if tensor else f"a {type(found).__name__} without values"
            return f"{name} is {got}, expected {own.dtype} {tuple(own.shape)}"
        return ""
    if isinstance(own, dict) and isinstance(found, dict):
        if own and (other := found.keys() ^ own.keys()):
            return f"{name} {'lacks' if min(other, key=str) in own else 'has the unknown entry'} {min(other, key=str)!r}"
        return misfit_in(found, own, name)
    if type(found) not in _KINDS.get(type(own), (type(own),)):
        return f"{name} is {found!r:.60}, expected {_NAMES.get(type(own), type(own).__name__)}"
    if isinstance(found, int) and abs(found) >= _LARGEST:
        return f"{name} is too large"
    return ""


def misfit_in(found: Mapping[str, Any], forms: Mapping[str, Any], name: str = "") -> str:
    """Describe the first value whose form differs from that of the value with the same name in `forms`; see `misfit`.

    Names that are missing in one of the two mappings are not checked. If no form differs, return an empty string.
    """
    names = (key for key in forms if key in found)
    return next(filter(None, (misfit(found[key], forms[key], f"{name}.{key}" if name else f"{key}") for key in names)), "")
