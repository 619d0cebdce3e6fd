"""Arguments of commands: numbers, names of files, and options that describe the layout of files."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, cast

from regard.config import RunConfig
from regard.config.loading import dump_config, load_config, override_layer
from regard.errors import RequestError
from regard.task.operation import Files

ConfigT = TypeVar("ConfigT", bound=RunConfig)

_LAYOUT = {
    "format": "tsv, csv, jsonl, parquet, fast_align or text",
    "columns": "columns of the source and the target, such as en,de or 1,3",
    "text": "column of the text",
    "label": "column of the label",
    "label_separator": "separator of the labels of a text, such as |, if a text can have several",
    "header": "yes if the first line names the columns, else no",
    "encoding": "encoding of the file, such as cp1252",
    "allow_skipped": "maximum share of unusable lines, from 0 to 1",
}
"""Settings that describe the layout of a file, with their help texts."""


def whole_number(text: str) -> int:
    """Parse a whole number of 0 or more, for argparse."""
    return _at_least(text, 0)


def positive_number(text: str) -> int:
    """Parse a whole number of 1 or more, for argparse."""
    return _at_least(text, 1)


def any_number(text: str) -> float:
    """Parse a number, for argparse."""
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from error


def _at_least(text: str, low: int) -> int:
    if not text.isdecimal() or int(text) < low:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of {low} or more")
    return int(text)


def split_files(text: str) -> list[str]:
    """Split names of files at commas, unless the whole text is the name of an existing file."""
    return [text] if "," not in text or Path(text).exists() else [part.strip() for part in text.split(",")]


def add_layout_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options for settings of `data` that describe the layout of a file, such as `--data.columns`.

    Args:
        parser: Parser of the command.
        names: Names of these settings, without `data.`.
    """
    group = parser.add_argument_group(
        "layout of the file, if regard does not detect it (by default, the file is read like the training data)"
    )
    for name in names:
        group.add_argument(f"--data.{name}", metavar="VALUE", help=_LAYOUT[name])


def given_files(options: argparse.Namespace) -> Files:
    """Return the files of a command line, with the layout options that the user gave."""
    layout = {name: getattr(options, f"data.{name}", None) for name in _LAYOUT}
    return Files(options.files, {name: value for name, value in layout.items() if value is not None})


def lay_out(config: ConfigT, files: Files) -> ConfigT:
    """Return the configuration with the layout of files set in `data`.

    Raises:
        RequestError: If `data` of the configuration's task has no such setting.
        ConfigError: If a value is of the wrong type or out of range.
    """
    for name in files.layout:
        if not hasattr(config.data, name):
            raise RequestError(
                f"--data.{name} cannot be used: the model's task is {config.task}, whose data has no such setting"
            )
    layer = override_layer({f"data.{name}": value for name, value in files.layout.items()})
    return cast(ConfigT, load_config(dump_config(config), layer)) if files.layout else config


def trained_encoding(paths: Sequence[str], trained: str) -> str:
    """Return the setting of the encoding for new files: `auto` if all of them are valid UTF-8, else that of the training data.

    Args:
        paths: The new files.
        trained: Encoding that was set for the training data.
    """
    from regard.text.opening import fits_utf8

    if trained == "auto":
        return trained
    return "auto" if all(Path(path).is_file() and fits_utf8(path) for path in paths) else trained
