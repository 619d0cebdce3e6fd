"""Options of a command that only some tasks have: those of the operations with the command's name."""

import argparse
from typing import Any

from regard.cli.options import add_ensemble_option, add_layout_options, add_options, create
from regard.errors import RequestError
from regard.task import FileOperation, Operation, all_tasks, find_task


class TaskOptions:
    """The options of all operations with one name, which belong to several tasks.

    The command whose parser is given has all of them, except those in `without`.
    """

    def __init__(self, parser: argparse.ArgumentParser, command: str, name: str, *, without: tuple[str, ...] = ()) -> None:
        self._parser, self._command, self._without = parser, command, without
        self.operations: dict[str, type[Operation]] = {}
        self._owners: dict[str, list[str]] = {}
        for task in all_tasks().values():
            for operation in task.operations:
                if operation.name != name:
                    continue
                self.operations[task.name] = operation
                # An option that several tasks have is added once.
                add_options(parser, operation, self._names(operation) - self._owners.keys())
                for option in self._names(operation):
                    self._owners.setdefault(option, []).append(task.name)
        averaged = [task for task, one in self.operations.items() if getattr(one, "ensembles", False)]
        if averaged and name != "attention":
            add_ensemble_option(parser)
            self._owners["ensemble"] = averaged

    def _names(self, operation: type[Operation]) -> set[str]:
        return operation.options().keys() - set(self._without)

    def add_layout(self) -> None:
        """Add the options that describe the layout of a file, such as `--data.columns`, for all tasks."""
        add_layout_options(self._parser, self.operations)

    @property
    def pictures(self) -> dict[str, Any]:
        """The options that name a file for a picture, with the endings of the file."""
        found = (one.pictures for one in self.operations.values() if issubclass(one, FileOperation))
        return {name: endings for pictures in found for name, endings in pictures.items()}

    def create(self, kind: Any, options: argparse.Namespace, task: str) -> Any:
        """Build the operation of a task, which must be of a class; options for other tasks only raise an error."""
        held = f"{options.dir} holds {find_task(task).words.predictor}"
        operation = self.operations.get(task)
        if operation is None or not issubclass(operation, kind):
            able = " or ".join(find_task(name).words.predictor for name in self.operations)
            raise RequestError(f"{self._command}: {held}, expected {able}")
        for option, owners in self._owners.items():
            if task not in owners and getattr(options, option) is not None:
                *first, last = (find_task(name).words.predictors for name in owners)
                whom = f"{', '.join(first)} and {last}" if first else last
                flags = {name: flag for one in self.operations.values() for name, flag in one.flags.items()}
                flag = flags.get(option, "--" + option.replace("_", "-"))
                raise RequestError(f"{self._command}: {flag} is for {whom}, and {held}")
        return create(operation, options, self._names(operation))
