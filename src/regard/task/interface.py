"""A task as one object, and a function that finds it by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from regard.config.plugins import locate_task, task_names
from regard.config.run import RunConfig
from regard.errors import ConfigError, RequestError
from regard.task.bundle import Bundle, BundleFormat
from regard.task.operation import FileOperation, Operation
from regard.task.settings import SettingsTable
from regard.task.training import Training


@dataclass(frozen=True, kw_only=True)
class TaskWords:
    """Texts about a task, for the command line and for messages."""

    predictor: str
    """Noun for a trained model, with its article: `a classifier`."""
    summary: str
    """Sentence that describes `regard train TASK`, for help texts."""
    data: str
    """Help text of `--data.train`."""
    missing: str
    """Noun phrase for a training file, for the error message if the user names no file: `a file of labelled texts`."""
    examples: str = ""
    """Example commands for the help of `regard train TASK`, one per line."""
    use: Sequence[str] = ()
    """Commands to suggest after training and in the model card, with `DIR` in place of the model's folder:
    `regard classify DIR "a text"`."""
    options: Sequence[tuple[str, str]] = ()
    """Settings to show at the top of the help of `regard train TASK`, with their help texts."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Settings that have a short name on the command line, by this name: `{"folds": "data.folds"}`."""

    @property
    def predictors(self) -> str:
        """Plural of the noun in `predictor`: `classifiers`."""
        return f"{self.predictor.partition(' ')[2]}s"


class Task:
    """A task and its parts.

    Its larger parts can be imported when they are first used (`part`), so that settings and help texts do not need torch.

    Attributes:
        name: Name of the task in settings and on the command line.
        config_class: Class of the settings of the task's runs.
        words: Texts about the task, for the command line and for messages.
        files: Names of the signed files of the task's models, besides the files that the models of all tasks have. If there
            are several sets, each model has the files of one set. By default, the `file` of the bundle format.
        unsigned_files: Names of files that may be added to a model after training. The signature does not cover them, and a
            new run that overwrites the model deletes them.
        settings_table: Table that chooses settings from the data; None if the defaults of the config classes are used.
        training: The part that prepares the data and the model for training.
        bundle_format: The part that saves and loads models.
        predictor: Class of the predictors (see `regard.tasks.predictor.Predictor`), which is called with a bundle.
        operations: What the task's models can do. The command line and the service offer these operations, and know no others.
    """

    name: str
    config_class: type[RunConfig]
    words: TaskWords
    unsigned_files: tuple[str, ...] = ()
    settings_table: SettingsTable | None = None
    training: Training
    bundle_format: BundleFormat
    predictor: Callable[[Bundle], Any]
    operations: Sequence[type[Operation]] = ()

    @property
    def files(self) -> tuple[frozenset[str], ...]:
        return (frozenset({self.bundle_format.file}),)

    def commands(self, config: RunConfig) -> Sequence[str]:
        """Return those commands of `words.use` that work for models with these settings."""
        return [command for command in self.words.use if config.fits_page or not command.startswith("regard page")]

    def file_operation(self, name: str) -> type[FileOperation] | None:
        """Return the operation on files with this name; None if the task has none."""
        return next((one for one in self.operations if one.name == name and issubclass(one, FileOperation)), None)

    def ensemble(self, predictors: Sequence[Any]) -> Any:
        """Return a predictor that averages the outputs of several predictors.

        Raises:
            RequestError: If models of this task cannot be averaged, or these models do not match.
        """
        raise RequestError(f"load: {self.words.predictors} cannot form an ensemble; load one folder")


def part(place: str, *, call: bool = True) -> Any:
    """Return an attribute of a task that is imported when it is first used.

    Args:
        place: Module and name, such as `my_package.training:MyTraining`.
        call: Whether to call a class without arguments.
    """
    module, _, name = place.partition(":")

    class Part:
        def __get__(self, task: Any, owner: type | None = None) -> Any:
            value = getattr(import_module(module), name)
            return value() if call and isinstance(value, type) else value

    return Part()


def find_task(name: str) -> Task:
    """Return the task with this name.

    Raises:
        ConfigError: If there is no such task, or its entry point is not a task.
    """
    found = locate_task(name)
    if not isinstance(found, Task):
        raise ConfigError(f"the entry point of task {name!r} is a {type(found).__name__}, expected a regard.task.Task object")
    return found


def all_tasks() -> dict[str, Task]:
    """Return all tasks by name, except those that cannot be imported: a broken package must not break the other tasks."""
    found = {}
    for name in task_names():
        with suppress(ConfigError):
            found[name] = find_task(name)
    return found
