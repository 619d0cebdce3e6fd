"""All targets by name. Those that need torch are imported only when one of them is asked for."""

from fuzz.engine import Target
from fuzz.files import FILES
from fuzz.readers import READERS

_SERVICES = ("service", "page")
_BUNDLES = ("signature", "config", "model", "tokenizer", "labels", "report", "values", "export")
SLOW = {"bundle-export": 1000}
"""Targets that take seconds for an input get one input where others get so many."""


def target_names() -> tuple[str, ...]:
    """In the order in which they are fed."""
    return (*(target.name for target in (*READERS, *FILES)), *(f"bundle-{name}" for name in _BUNDLES), *_SERVICES)


def find_target(name: str) -> Target:
    """The target of a name."""
    for target in (*READERS, *FILES):
        if target.name == name:
            return target
    if name in _SERVICES:
        from fuzz.services import SERVICES

        return next(target for target in SERVICES if target.name == name)
    from fuzz.bundles import BUNDLES
    from fuzz.values import EXPORT_TARGET, VALUES_TARGET

    return next(target for target in (*BUNDLES, VALUES_TARGET, EXPORT_TARGET) if target.name == name)
