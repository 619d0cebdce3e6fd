"""Arguments of commands: numbers, names of files, and options that describe the layout of files."""

import argparse
from pathlib import Path

from regard.task.operation import Files

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
