"""Formats of tables. A module declares its formats, with their endings, in `FORMATS`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
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


def load_format(name: str) -> Format:
    """Return a format by its name."""
    formats = (import_module(f"{__name__}.{module.name}").FORMATS for module in iter_modules(__path__))
    return next(found[name] for found in formats if name in found)


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
