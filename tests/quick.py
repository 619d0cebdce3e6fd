"""Tests that take long with all of their cases: `make test` runs a part of the cases, `make test-slow` the others."""

from collections.abc import Callable, Mapping

import pytest


def quick(cases: Mapping[str, object], chosen: Callable[[str], bool], *, key: bool = False) -> list[object]:
    """Return parameters for `pytest.mark.parametrize`; those that are not chosen are marked as slow.

    Args:
        cases: Name of each case → its value.
        chosen: Whether the case of a name runs in `make test`.
        key: Whether the test gets the name instead of the value.
    """
    return [
        pytest.param(name if key else value, id=name, marks=() if chosen(name) else pytest.mark.slow)
        for name, value in cases.items()
    ]
