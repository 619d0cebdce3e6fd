"""The data files of this package, and the files that the built-in corpora are written to."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TextIO

import yaml

from regard import disk
from regard.errors import DataError


def read_table(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a tab-separated file of this package, by the names of its columns."""
    yield from csv.DictReader(_read(name).splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)


def read_yaml(name: str) -> Any:
    """Return the content of a YAML file of this package."""
    return yaml.safe_load(_read(name))


def _read(name: str) -> str:
    return files("regard.demo").joinpath(name).read_text(encoding="utf-8")


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing. The file appears under its name when it is complete; after an error, nothing is left.

    Raises:
        DataError: If the file cannot be written.
    """
    try:
        with disk.whole_text(path) as file:
            yield file
    except OSError as error:
        raise DataError(
            f"the built-in corpus cannot be written to {path}: {error.strerror or error}; name a file in a folder that exists, "
            "is writable and has free space"
        ) from error
