"""Analyses of trained models: comparison, faithfulness, capture, and descriptions of runs.

A public name is imported when it is first used, because `regard.capture` and `regard.info` need none of the tasks.
"""

from importlib import import_module
from typing import Any

from regard.homes import read_homes

_HOMES = read_homes(__file__)
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard.analysis' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
