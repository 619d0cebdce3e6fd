"""Options, commands and tasks of other tools, and regard's names for them, which error messages suggest.

The rows of `habits.yaml` contain names from fairseq, OpenNMT, JoeyNMT, Hugging Face and scikit-learn, and regard's answer: one
for all tasks, or one for each task. Names are compared in the form that `normalise` returns.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import yaml

Answer = str | Mapping[str, str]
"""Text that names regard's option, command or task: a single text for all tasks, or a text for each task that has an answer."""

_MODEL = ("model", "path", "checkpoint", "ckpt", "m", "model_path", "model_name_or_path", "checkpoint_path", "load_model")


@cache
def read_table(name: Literal["training", "using", "commands", "tasks"]) -> tuple[tuple[str, Answer], ...]:
    """Return the rows of a table of `habits.yaml`: the names in other tools, separated by spaces, and regard's answer."""
    rows = yaml.safe_load(files(__package__).joinpath("habits.yaml").read_text(encoding="utf-8"))[name]
    return tuple((row.pop("names"), row.pop("answer", row)) for row in rows)


def normalise(name: str) -> str:
    """Return a name in lower case, without leading dashes and value, with underscores: `batch_size` for `--Batch-Size=8`."""
    return name.partition("=")[0].lstrip("-").replace("-", "_").lower()


def find_setting(option: str, task: str) -> str:
    """Return regard's advice for a training option of another tool; an empty text if `habits.yaml` has none for the task.

    The advice usually names an option, such as `--training.max_epochs N`. It can also name a command or say "no setting".

    Args:
        option: The option as it was typed: `--num_train_epochs`, `-s`, `--lr=0.1`.
        task: Name of the task, such as `translation`.
    """
    answers = (answer if isinstance(answer, str) else answer.get(task, "") for answer in _find("training", option))
    return next(filter(None, answers), "")


def find_option(option: str, known: Mapping[str, object] | frozenset[str]) -> str:
    """Return regard's advice for another tool's option that a command does not know; an empty text if there is no advice.

    The advice is the first answer in `habits.yaml` that names an option in `known`, or that begins with "no switch". For an
    option that names a model, such as `--checkpoint`, the default advice is to give the folder of the run.

    Args:
        option: The option as it was typed, such as `--beam_size`.
        known: Options of the called command. An answer that names any other option is skipped.
    """
    answers = (str(answer) for answer in _find("using", option))
    fallback = "the folder of the run, without an option" if normalise(option) in _MODEL else ""
    return next((answer for answer in answers if answer.startswith("no switch") or answer.partition(" ")[0] in known), fallback)


def find_command(name: str) -> str:
    """Return regard's advice for a command of another tool; an empty text if `habits.yaml` does not list `name`."""
    return str(next(iter(_find("commands", name)), ""))


def find_other_name(name: str) -> str:
    """Return regard's name of the task that another tool calls `name`; an empty text if `habits.yaml` does not list it."""
    return str(next(iter(_find("tasks", name)), ""))


def _find(table: Literal["training", "using", "commands", "tasks"], name: str) -> list[Answer]:
    """Return the answers of all rows of a table that contain a name."""
    wanted = normalise(name)
    return [answer for names, answer in read_table(table) if wanted in names.split()]
