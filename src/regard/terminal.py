"""Functions for the terminal: text that any terminal can show, and messages that are written at once."""

import os
import sys
from io import TextIOWrapper
from typing import TextIO

_SHOW_CURSOR = "\x1b[?25h"


def replace_unwritable(file: TextIO) -> None:
    """Make a file accept any text: characters that its encoding cannot represent are written as "?"."""
    if isinstance(file, TextIOWrapper):
        file.reconfigure(errors="replace")


def write_now(text: str, *, show_cursor: bool = True) -> None:
    """Write to standard error at once, without buffers and locks, because another thread may be printing.

    Args:
        text: The text.
        show_cursor: Whether to show the terminal's cursor, which progress bars hide, because the process is about to end.
    """
    cursor = _SHOW_CURSOR if show_cursor and sys.stderr.isatty() else ""
    os.write(2, (cursor + text).encode())


def discard_output() -> None:
    """Discard standard output from now on, because its reader has closed it; otherwise Python prints an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
