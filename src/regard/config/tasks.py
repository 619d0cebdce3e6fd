"""Find a task by its name: one of the three in `regard.tasks`, or one that another package offers as an entry point.

A package offers a task by naming a `regard.task.Task` object in its `pyproject.toml`:

    [project.entry-points."regard.tasks"]
    summaries = "my_package:TASK"
"""

from functools import cache
from importlib import import_module
from typing import Any

from regard.config.plugins import TASKS, entry_names, find_entries, load_entry
from regard.errors import ConfigError, nearest

BUILT_IN = {
    "translation": "regard.tasks.translation",
    "classification": "regard.tasks.classification",
    "language": "regard.tasks.language",
}
"""Modules of the built-in tasks. Each module holds its task in the variable `TASK`, and none of them imports torch."""


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, the built-in ones first."""
    return (*BUILT_IN, *sorted(entry_names(TASKS) - set(BUILT_IN)))


def is_task(name: str) -> bool:
    """Return whether a task of this name exists, without importing it."""
    return name in BUILT_IN or bool(find_entries(TASKS, name))


@cache
def locate_task(name: str) -> Any:
    """Import a task and return it. Installed packages are searched only if no built-in task has this name.

    Raises:
        ConfigError: If there is no task of this name, or its package cannot be imported.
    """
    if name in BUILT_IN:
        return import_module(BUILT_IN[name]).TASK
    entries = find_entries(TASKS, name)
    if not entries:
        raise ConfigError(f"task is {name!r}, expected one of: {', '.join(task_names())}{nearest(name, task_names())}")
    return load_entry(entries[0], "task")
