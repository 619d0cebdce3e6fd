"""Options and commands of other tools, and their names in regard.

`habits.yaml` has a row for each option, command or task of fairseq, OpenNMT, JoeyNMT, Hugging Face and scikit-learn. A row
has one answer for all tasks, or an answer for each task. Names are compared without leading dashes, and with underscores
for dashes.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import yaml

Answer = str | Mapping[str, str]
"""An answer for all tasks, or answers by task; a task that is missing has no answer."""

_MODEL = ("model", "path", "checkpoint", "ckpt", "m", "model_path", "model_name_or_path", "checkpoint_path", "load_model")


@cache
def read_table(name: Literal["training", "using", "commands", "tasks"]) -> tuple[tuple[str, Answer], ...]:
    """Return the rows of a table of `habits.yaml`: the names in other tools, and regard's answer."""
    rows = yaml.safe_load(files(__package__).joinpath("habits.yaml").read_text(encoding="utf-8"))[name]
    return tuple((row.pop("names"), row.pop("answer", row)) for row in rows)


def normalise(name: str) -> str:
    """Return a name in lower case, without leading dashes, with underscores: `--Batch-Size` becomes `batch_size`."""
    return name.partition("=")[0].lstrip("-").replace("-", "_").lower()


def find_setting(option: str, task: str) -> str:
    """Return regard's answer to a training option of another tool, or an empty string if the option is not known.

    Args:
        option: The option as it was typed: `--num_train_epochs`, `-s`, `--lr=0.1`.
        task: `translation`, `classification` or `language`.
    """
    answers = (answer if isinstance(answer, str) else answer.get(task, "") for answer in _find("training", option))
    return next(filter(None, answers), "")


def find_option(option: str, known: Mapping[str, object] | frozenset[str]) -> str:
    """Return regard's answer to another tool's option, or an empty string if the answer's option is not in `known`."""
    answers = (str(answer) for answer in _find("using", option))
    fallback = "the folder of the run, without an option" if normalise(option) in _MODEL else ""
    return next((answer for answer in answers if answer.startswith("no switch") or answer.partition(" ")[0] in known), fallback)


def find_command(name: str) -> str:
    """Return regard's command for the command `name` of another tool, or an empty string."""
    return str(next(iter(_find("commands", name)), ""))


def find_other_name(name: str) -> str:
    """Return the name of the task that another tool calls `name`, or an empty string."""
    return str(next(iter(_find("tasks", name)), ""))


def _find(table: Literal["training", "using", "commands", "tasks"], name: str) -> list[Answer]:
    """Return the answers of all rows that contain a name."""
    wanted = normalise(name)
    return [answer for names, answer in read_table(table) if wanted in names.split()]
