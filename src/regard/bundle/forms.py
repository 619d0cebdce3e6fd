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

    Args:
        found: The value to check, of plain types and tensors.
        own: A value of the right form: a mapping with the right names, a tensor of the right shape and dtype, a number. An
            empty mapping or list allows any mapping or list, and None allows None or a number.
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
    """Describe the first value whose form differs from that of the same name in `forms`; see `misfit`.

    Names that are missing in one of the mappings are not checked.
    """
    names = (key for key in forms if key in found)
    return next(filter(None, (misfit(found[key], forms[key], f"{name}.{key}" if name else f"{key}") for key in names)), "")
