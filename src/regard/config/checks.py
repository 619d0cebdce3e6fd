"""Check the ranges of numeric settings, and settings that can be in conflict with each other."""

from collections.abc import Mapping

from regard.config.fields import walk
from regard.config.settings import Settings
from regard.errors import ConfigError


def check_config(config: Settings, places: Mapping[str, str] | None = None) -> None:
    """Check that every number is in its range, and that no settings are in conflict with each other.

    Args:
        config: A run's configuration, or a part of one.
        places: The file and line of each setting, such as `run.yaml:3`, by dotted name, for messages; None for no files.

    Raises:
        ConfigError: If a setting is out of range or conflicts with another.
    """
    for name, facts, value in walk(config):
        if problem := facts.problem(value):
            raise _error(name, f"{name} is {problem}", places)
    for name, message in config.conflicts():
        raise _error(name, message, places)


def _error(name: str, message: str, places: Mapping[str, str] | None) -> ConfigError:
    place = (places or {}).get(name, "")
    return ConfigError(f"{place}: {message}" if place else message)
