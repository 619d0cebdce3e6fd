"""Printing what users wrote, whatever they wrote."""

from io import TextIOWrapper
from typing import TextIO


def replace_unwritable(file: TextIO) -> None:
    """Let a file take any text: what its encoding has no form for, such as half of a surrogate pair, becomes "?"."""
    if isinstance(file, TextIOWrapper):
        file.reconfigure(errors="replace")
