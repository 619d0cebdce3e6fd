"""The checker that jaxtyping's import hook runs over all of `regard` under pytest (see pyproject.toml)."""

from collections.abc import Callable
from types import FunctionType
from typing import get_args

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintException
from jaxtyping import AbstractArray

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function: Callable) -> Callable:
    """Check the shapes in a function's annotations at each call; the other types are mypy's work."""
    if not isinstance(function, FunctionType):
        return function
    shapes = {name: hint for name, hint in function.__annotations__.items() if _has_shape(hint)}
    if not shapes:
        return function
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, shapes
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, function.__qualname__, function.__doc__
    try:
        return _check(copy)
    except BeartypeDecorHintException:  # a shape inside a type that beartype cannot check, such as a Protocol's
        return function


def _has_shape(hint: object) -> bool:
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(_has_shape, get_args(hint)))
