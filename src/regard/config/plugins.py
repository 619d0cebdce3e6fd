"""Objects that other installed packages offer as entry points: tasks (`regard.tasks`), and kinds of settings (`regard.kinds`).

A package offers a kind by naming the kind's config class in its `pyproject.toml`:

    [project.entry-points."regard.kinds"]
    distance = "my_package:DistanceConfig"
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from regard.errors import ConfigError

TASKS, KINDS = "regard.tasks", "regard.kinds"
"""Names of the groups of entry points."""


def entry_names(group: str) -> set[str]:
    """Return the names of the entry points of a group."""
    return {entry.name for entry in entry_points(group=group)}


def find_entries(group: str, name: str) -> list[EntryPoint]:
    """Return the entry points with a given name, one for each package that offers it, without importing a package."""
    return list(entry_points(group=group, name=name))


def load_entry(entry: EntryPoint, setting: str) -> Any:
    """Import the object of an entry point.

    Args:
        entry: The entry point.
        setting: Dotted name of the setting whose value is the entry point's name, for the message.

    Raises:
        ConfigError: If the object cannot be imported.
    """
    try:
        return entry.load()
    except Exception as error:  # whatever the package's code raises
        message = f"{setting} is {entry.name!r}, whose entry point '{entry.value}' cannot be loaded"
        raise ConfigError(f"{message}: {type(error).__name__}: {error}") from error
