"""Objects that installed packages offer by entry points: tasks (`regard.tasks`), and kinds of settings (`regard.kinds`).

A package offers a kind in its `pyproject.toml`, as the path of its config class:

    [project.entry-points."regard.kinds"]
    distance = "my_package:DistanceConfig"
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from regard.errors import ConfigError

TASKS, KINDS = "regard.tasks", "regard.kinds"
"""Groups of entry points."""


def entry_names(group: str) -> set[str]:
    """Return the names of the entry points of a group."""
    return {entry.name for entry in entry_points(group=group)}


def find_entries(group: str, name: str) -> list[EntryPoint]:
    """Return the entry points of a name, one for each package that has it, without importing anything."""
    return list(entry_points(group=group, name=name))


def load_entry(entry: EntryPoint, setting: str) -> Any:
    """Import the object of an entry point.

    Args:
        entry: The entry point.
        setting: The setting that named it, for the message.

    Raises:
        ConfigError: If the object cannot be imported.
    """
    try:
        return entry.load()
    except Exception as error:  # whatever the package's code raises
        message = f"{setting} is {entry.name!r}, whose entry point '{entry.value}' cannot be loaded"
        raise ConfigError(f"{message}: {type(error).__name__}: {error}") from error
