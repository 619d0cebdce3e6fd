"""Parts that the tables of all tasks share: a choice of settings with its reasons, and the settings that the user made."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Choice:
    """A preset to start from, the settings that differ from it, and what was found in the data."""

    preset: str
    settings: dict[str, Any]
    """Settings by dotted names."""
    found: tuple[str, ...]
    """Findings that decided the choice, for the report: sizes, lengths and scripts."""


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
        """Return the kind of a part: the one the user set, or else the first that has every setting the user made in it.

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


def interpolate(value: float, rows: tuple[tuple[float, float], ...]) -> float:
    """Read a table of (x, y) at x = `value`, with straight lines between its rows and constants outside."""
    if value <= rows[0][0]:
        return rows[0][1]
    for (x0, y0), (x1, y1) in pairwise(rows):
        if value <= x1:
            return y0 + (y1 - y0) * (value - x0) / (x1 - x0)
    return rows[-1][1]


MOST_WARMUP = 200
"""Maximum number of warm-up updates, over which the learning rate rises."""
UNBOUNDED = 100_000
"""Maximum number of epochs if the user limits the updates instead."""
VALIDATIONS = 10
"""Number of validations in a run of many epochs."""


def length_settings(given: Given, *, epochs: int, epoch_updates: float, most_warmup: int = MOST_WARMUP) -> dict[str, Any]:
    """Choose how long to train, how long the learning rate rises, and how often to validate.

    Args:
        given: The settings that the user made. If they limit the length of training, no other limit is chosen.
        epochs: Number of epochs to choose.
        epoch_updates: Approximate number of updates per epoch.
        most_warmup: Maximum number of updates over which the learning rate rises.
    """
    own_epochs, own_steps = (to_number(given.find(f"training.max_{unit}")) for unit in ("epochs", "steps"))
    settings: dict[str, Any] = {}
    if own_steps is None:
        settings["training.max_steps"] = 0
    if own_epochs is None:
        settings["training.max_epochs"] = UNBOUNDED if own_steps else epochs
    updates = epoch_updates * (own_epochs or epochs)
    updates = min(updates, own_steps) if own_epochs and own_steps else own_steps or updates
    settings["training.schedule.warmup_steps"] = min(max(round(updates / 10), 1), most_warmup)
    many = updates > 1.5 * VALIDATIONS * epoch_updates
    settings["training.validate_every"] = max(round(updates / VALIDATIONS), 1) if many else 0
    return settings


def to_number(value: Any) -> int | None:
    """Return a setting as a positive integer; None for zero and for anything else, which the strict loader reports."""
    try:
        return max(int(value), 0) or None
    except (TypeError, ValueError):
        return None


def count(number: int, noun: str) -> str:
    """Write a number with its noun in the singular or plural: `1 pair`, `29,000 pairs`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
