"""Tables that choose the settings of a task from the data, for all settings that the user did not set."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Choice:
    """A preset to start from, the settings that differ from it, and the findings about the data."""

    preset: str
    """Name of a preset; empty to start from the defaults."""
    settings: dict[str, Any]
    """Values by the dotted names of the settings, such as `training.max_epochs`."""
    found: tuple[str, ...]
    """Findings that decided the choice, for the report: sizes, lengths and scripts."""


class UserSettings:
    """The settings that the user set, by dotted names."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def find(self, name: str) -> Any:
        """Return the value of a setting, or the settings below a part, by its dotted name; None if the user set none."""
        below = {other[len(name) + 1 :]: value for other, value in self._values.items() if other.startswith(f"{name}.")}
        return below or self._values.get(name)

    def kind(self, part: str, kinds: Mapping[str, type], preferred: str) -> str:
        """Return the kind of a part of the settings: the kind that the user set, or one that has all settings of the user.

        Args:
            part: Dotted name of the part, such as `model`.
            kinds: Config classes by kind, in the order in which they are tried.
            preferred: Kind that is tried before all others. It is also returned if no kind has all settings that the user set
                in this part.
        """
        chosen = self.find(f"{part}.kind")
        if isinstance(chosen, str) and chosen in kinds:
            return chosen
        made = self.find(part)
        names = {name.partition(".")[0] for name in made} if isinstance(made, Mapping) else set()
        for kind in (preferred, *kinds):
            if names <= {item.name for item in fields(kinds[kind])}:
                return kind
        return preferred


class SettingsTable(ABC):
    """A table that chooses the settings of a task for a given amount and kind of data."""

    @abstractmethod
    def choose(self, data: Any, given: UserSettings, *, read: bool = True) -> Choice:
        """Choose settings.

        Args:
            data: Settings of the data, whose `train` names the files.
            given: The settings that the user set.
            read: Whether to read the files; if not, the choice is only for an early check of the user's settings.
        """

    @abstractmethod
    def describe(self, config: Any) -> tuple[str, ...]:
        """Return lines that describe the model, the tokenizers and the training of a configuration."""
