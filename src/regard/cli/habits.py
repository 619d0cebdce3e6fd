"""Frequent options, commands and tasks of other tools, and regard's names for them, which error messages suggest."""

from functools import cache
from importlib.resources import files
from typing import Literal

import yaml

Table = Literal["training", "using", "commands", "tasks"]
"""Part of `habits.yaml`: options for training, options for using a model, commands, and names of tasks."""


@cache
def read_table(table: Table) -> dict[str, str]:
    """Return a part of `habits.yaml`: regard's name, or advice, by the names in other tools."""
    rows = yaml.safe_load(files(__package__).joinpath("habits.yaml").read_text(encoding="utf-8"))[table]
    # A row has one answer for several names.
    return {name: answer for names, answer in rows.items() for name in names.split()}


def normalise(name: str) -> str:
    """Return a name in lower case, without leading dashes and value, with underscores: `batch_size` for `--Batch-Size=8`."""
    return name.partition("=")[0].lstrip("-").replace("-", "_").lower()


def find_habit(table: Table, name: str) -> str:
    """Return regard's name for an option, command or task of another tool, as it was typed; empty if it is not listed."""
    return read_table(table).get(normalise(name), "")
