"""Options of a command that only some tasks have; each task defines the options for its models."""

import argparse
from typing import Literal

from regard.errors import RequestError
from regard.task import Commands, Option, all_tasks, find_task
from regard.tasks.arguments import add_layout_options


class TaskOptions:
    """The options that tasks define for one command. The command has the options of all tasks.

    Args:
        parser: Parser of the command, to which the options are added.
        command: Name of the command.
    """

    def __init__(self, parser: argparse.ArgumentParser, command: Literal["look", "evaluate", "compare"]) -> None:
        self._parser, self._command = parser, command
        self._tasks: dict[str, Commands] = {}
        self._options: dict[str, Option] = {}
        self._owners: dict[str, list[str]] = {}
        for name, task in all_tasks().items():
            self._tasks[name] = task.commands
            for option in self._of(name):
                if option.flag not in self._options:
                    self._options[option.flag] = option
                    self._owners[option.flag] = []
                    option.add_to(parser)
                self._owners[option.flag].append(name)

    def add_layout(self) -> None:
        """Add the options that describe the layout of a file, such as `--data.columns`, for all tasks."""
        names = dict.fromkeys(name for commands in self._tasks.values() for name in commands.layout)
        add_layout_options(self._parser, *names)

    @property
    def pictures(self) -> list[Option]:
        """The options that name a file for a picture."""
        return [option for option in self._options.values() if option.endings]

    def check(self, options: argparse.Namespace, task: str) -> None:
        """Check that every option that the user gave belongs to the model's task.

        Args:
            options: Parsed options, with `dir`.
            task: Name of the model's task.

        Raises:
            RequestError: If an option is for other tasks only.
        """
        for flag, owners in self._owners.items():
            if task not in owners and getattr(options, self._options[flag].name) is not None:
                whom = " and ".join(find_task(name).words.predictors for name in owners)
                what = find_task(task).words.predictor
                raise RequestError(f"{self._command}: {flag} is for {whom}, and {options.dir} holds {what}")

    def _of(self, name: str) -> tuple[Option, ...]:
        commands = self._tasks[name]
        options = {
            "look": commands.look_options,
            "evaluate": commands.evaluate_options,
            "compare": commands.compare_options,
        }
        return tuple(options[self._command])
