"""Formats of tables. A module declares its formats, with their endings, in `FORMATS`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from regard.config.data import TableFormat
from regard.text.column_rules import ColumnRules
from regard.text.opening import ending, open_bytes
from regard.text.report import ReadingReport

Chunk = tuple[Sequence[Sequence[Any]], Sequence[int]]
"""The two wanted columns and the line numbers, before cleaning. Values are text, unless the format has types."""


@dataclass(frozen=True)
class Format:
    """A format of tables."""

    title: str
    """Name of the format in reports."""
    read: Callable[[Path, ColumnRules, ReadingReport], Iterator[Chunk]]
    """Function that chooses the columns of a file and yields their values; it fills the report."""
    endings: tuple[str, ...] = ()
    """Endings of file names, without `.gz`."""
    encoding: str = ""
    """Encoding of every file of this format; empty if the settings decide."""
    typed: bool = False
    """Whether values have types, as in JSON; if True, the word `None` is an ordinary label."""


@cache
def _formats() -> dict[str, Format]:
    # `pkgutil` would silently find no module if the folder cannot be read for lack of memory.
    modules = (file.name.removesuffix(".py") for file in files(__name__).iterdir() if file.name[0] not in "_.")
    return {name: found for module in modules for name, found in import_module(f"{__name__}.{module}").FORMATS.items()}


def load_format(name: str) -> Format:
    """Return a format by its name."""
    return _formats()[name]


def name_format(path: str | Path) -> str:
    """Return the format that has the ending of a file's name; empty if none has it."""
    return next((name for name in get_args(TableFormat) if ending(path) in load_format(name).endings), "")


def detect_format(path: Path) -> str:
    """Return the format of a table, by the ending of its name, or by its first bytes for Parquet; tab-separated by default."""
    with open_bytes(path) as file:
        return "parquet" if file.peek(4)[:4] == b"PAR1" else name_format(path) or "tsv"


def find_table(paths: Sequence[Path]) -> Path | None:
    """Return the first file that is named like a table."""
    return next(filter(name_format, paths), None)
