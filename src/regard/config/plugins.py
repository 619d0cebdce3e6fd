"""Tasks and kinds of settings by name: the built-in tasks, and what other installed packages offer as entry points.

A package offers a task, which is a `regard.task.Task` object, or a kind, by its config class, in its `pyproject.toml`:

    [project.entry-points."regard.tasks"]
    summaries = "my_package:TASK"

    [project.entry-points."regard.kinds"]
    distance = "my_package:DistanceConfig"
"""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from regard.errors import ConfigError, nearest

TASKS, KINDS = "regard.tasks", "regard.kinds"
"""Names of the groups of entry points."""

BUILT_IN = {
    "translation": "regard.tasks.translation",
    "classification": "regard.tasks.classification",
    "language": "regard.tasks.language",
    "captioning": "regard.tasks.captioning",
    "tagging": "regard.tasks.tagging",
}
"""Modules of the built-in tasks. Each module holds its task in the variable `TASK`, and none of them imports torch."""


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, the built-in ones first."""
    return (*BUILT_IN, *sorted(entry_names(TASKS) - set(BUILT_IN)))


def is_task(name: object) -> bool:
    """Return whether a task of this name exists, without importing it."""
    return isinstance(name, str) and (name in BUILT_IN or bool(entry_points(group=TASKS, name=name)))


@cache
def locate_task(name: str) -> Any:
    """Import a task and return it. Installed packages are searched only if no built-in task has this name.

    Raises:
        ConfigError: If there is no task of this name, or its package cannot be imported.
    """
    if name in BUILT_IN:
        return import_module(BUILT_IN[name]).TASK
    if not is_task(name):
        raise ConfigError(unknown_task(name))
    return load_entry(next(iter(entry_points(group=TASKS, name=name))), "task")


def unknown_task(name: Any) -> str:
    """Return the message about a task that does not exist."""
    return f"task is {name!r:.60}, expected one of: {', '.join(task_names())}{nearest(name, task_names())}"


def entry_names(group: str) -> set[str]:
    """Return the names of the entry points of a group."""
    return {entry.name for entry in entry_points(group=group)}


def load_entry(entry: EntryPoint, setting: str) -> Any:
    """Import the object of an entry point, which the value of a setting names.

    Raises:
        ConfigError: If the object cannot be imported.
    """
    try:
        return entry.load()
    except Exception as error:  # whatever the package's code raises
        message = f"{setting} is {entry.name!r}, whose entry point '{entry.value}' cannot be loaded"
        raise ConfigError(f"{message}: {type(error).__name__}: {error}") from error
