"""The word lists of this package."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


def read_table(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a tab-separated file of this package, by the names of its columns."""
    yield from csv.DictReader(_read(name).splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)


def read_yaml(name: str) -> Any:
    """Return the content of a YAML file of this package."""
    return yaml.safe_load(_read(name))


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
