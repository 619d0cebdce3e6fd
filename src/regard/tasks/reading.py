"""Read the files that are given to a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config.loading import dump_config, load_config, override_layer
from regard.errors import RequestError
from regard.task.operation import Files
from regard.tasks.arguments import split_files
from regard.text.opening import ending, fits_utf8


def find_layout(files: Files, config: Any, columns: Sequence[str] = (), *, like_training: bool = True) -> tuple[list[str], Any]:
    """Return the paths of files, and the settings under `data` to read them with.

    The files are read like the training data, unless their names or the user's options define another layout.

    Args:
        files: The files.
        config: Configuration of the model's run.
        columns: Settings that describe the columns of the training file. They get their defaults for a file of another kind,
            which may have other columns.
        like_training: If False, `columns` get their defaults for every file.

    Raises:
        RequestError: If `data` of the model's task does not have a setting that the user gave.
        ConfigError: If a value is of the wrong type or out of range.
    """
    paths, data = split_files(files.names), config.data
    same = len(paths) == len(data.train) == 1 and ending(paths[0]) == ending(data.train[0])
    plain = type(data)()
    names = ["format"] * hasattr(data, "format") + ([] if same and like_training else list(columns))
    data = replace(data, **{name: getattr(plain, name) for name in names})
    if data.encoding != "auto" and all(Path(path).is_file() and fits_utf8(path) for path in paths):
        data = replace(data, encoding="auto")  # only the training data have another encoding
    for name in files.layout:
        if not hasattr(data, name):
            raise RequestError(
                f"--data.{name} cannot be used: the model's task is {config.task}, whose data has no such setting"
            )
    config = replace(config, data=data)
    if files.layout:
        layer = override_layer({f"data.{name}": value for name, value in files.layout.items()})
        config = load_config(dump_config(config), layer)
    return paths, config.data
