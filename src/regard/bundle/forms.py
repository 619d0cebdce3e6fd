"""Checks of plain data from a file: names, types and shapes are compared with the expected ones before a value is used."""

from collections.abc import Mapping
from typing import Any

import torch

_LARGEST = 1 << 63
_KINDS: dict[type, tuple[type, ...]] = {float: (float, int), type(None): (type(None), float, int)}
_NAMES = {float: "a number", type(None): "a number or null", int: "a whole number", str: "a string", bool: "true or false"}
_NAMES |= {dict: "named values", list: "a list"}


def describe_mismatch(value: Any, form: Any, name: str) -> str:
    """Describe the first difference between a value and the expected form; return an empty string if they match.

    A form is a mapping with the same names, a tensor of the same shape and dtype, or any value of the same type. An empty
    mapping allows any mapping, a list any list, a float any number, and None a number or None.
    """
    if isinstance(form, torch.Tensor):
        if not isinstance(value, torch.Tensor) or value.is_meta or (value.shape, value.dtype) != (form.shape, form.dtype):
            tensor = isinstance(value, torch.Tensor) and not value.is_meta
            got = f"{value.dtype} {tuple(value.shape)}" if tensor else f"a {type(value).__name__} without values"
            return f"{name} is {got}, expected {form.dtype} {tuple(form.shape)}"
        return ""
    if isinstance(form, dict) and isinstance(value, dict):
        if form and (other := value.keys() ^ form.keys()):
            return f"{name} {'lacks' if min(other, key=str) in form else 'has the unknown entry'} {min(other, key=str)!r}"
        return describe_mismatches(value, form, name)
    if type(value) not in _KINDS.get(type(form), (type(form),)):
        return f"{name} is {value!r:.60}, expected {_NAMES.get(type(form), type(form).__name__)}"
    if isinstance(value, int) and abs(value) >= _LARGEST:  # larger ones overflow in tensors and in arithmetic with floats
        return f"{name} is too large"
    return ""


def describe_mismatches(values: Mapping[str, Any], forms: Mapping[str, Any], name: str = "") -> str:
    """Describe the first mismatch among the values whose names are in both mappings; other names are not checked."""
    names = (key for key in forms if key in values)
    found = (describe_mismatch(values[key], forms[key], f"{name}.{key}" if name else str(key)) for key in names)
    return next(filter(None, found), "")
