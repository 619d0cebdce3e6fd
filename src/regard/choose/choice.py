"""What the tables of all tasks share: a choice of settings with its reasons, and what the user has set already."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Choice:
    """A preset to start from, the settings that differ from it, and what was found in the data."""

    preset: str
    settings: dict[str, Any]
    """By dotted names."""
    found: tuple[str, ...]
    """What decided, for the report: sizes, lengths and scripts."""


class Given:
    """The settings that the user made, as nested mappings."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def find(self, name: str) -> Any:
        """Return the value of a setting by its dotted name, or None if the user did not set it."""
        value: Any = self._values
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = value[part]
        return value

    def kind(self, part: str, kinds: Mapping[str, type], preferred: str) -> str:
        """Return the kind of a part: the one the user set, else the first that has every setting the user made there.

        Args:
            part: Dotted name, such as `model`.
            kinds: Config classes by kind.
            preferred: The kind to try first.
        """
        chosen = self.find(f"{part}.kind")
        if isinstance(chosen, str) and chosen in kinds:
            return chosen
        made = self.find(part)
        names = set(made) if isinstance(made, Mapping) else set()
        for kind in (preferred, *kinds):
            if names <= {item.name for item in fields(kinds[kind])}:
                return kind
        return preferred

    def bounds_length(self) -> bool:
        """Return whether the user said how long to train."""
        return any(self.find(f"training.max_{unit}") is not None for unit in ("epochs", "steps", "minutes"))


def interpolate(value: float, rows: tuple[tuple[float, float], ...]) -> float:
    """Read a table of (x, y) at x = `value`, with straight lines between its rows and constants outside."""
    if value <= rows[0][0]:
        return rows[0][1]
    for (x0, y0), (x1, y1) in pairwise(rows):
        if value <= x1:
            return y0 + (y1 - y0) * (value - x0) / (x1 - x0)
    return rows[-1][1]


def length_settings(given: Given, *, epochs: int, updates: float) -> dict[str, Any]:
    """Choose how long to train, and validate about `VALIDATIONS` times, unless the user said otherwise.

    Args:
        given: What the user set. Where that bounds the training, no other bound is chosen.
        epochs: Passes over the data.
        updates: Updates that these make, roughly.
    """
    settings: dict[str, Any] = {}
    if not given.bounds_length():
        settings |= {"training.max_epochs": epochs, "training.max_steps": 0}
    elif given.find("training.max_epochs") is None and given.find("training.max_steps") is not None:
        settings["training.max_epochs"] = UNBOUNDED
    elif given.find("training.max_epochs") is None:
        settings |= {"training.max_epochs": epochs, "training.max_steps": 0}
    else:
        settings["training.max_steps"] = 0
    if epochs > VALIDATIONS and not given.bounds_length():
        settings["training.validate_every"] = max(round(updates / VALIDATIONS), 1)
    else:
        settings["training.validate_every"] = 0
    return settings


UNBOUNDED = 100_000
"""Epochs where the user bounds the updates instead."""
VALIDATIONS = 10
"""Validations in a run of many epochs."""


def count(number: int, noun: str) -> str:
    """Write a number with its noun in the singular or plural: `1 pair`, `29,000 pairs`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
