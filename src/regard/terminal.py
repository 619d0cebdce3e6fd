"""The terminal: text that any terminal can show, and messages that cannot wait."""

import os
import sys
from io import TextIOWrapper
from typing import TextIO

_SHOW_CURSOR = "\x1b[?25h"


def replace_unwritable(file: TextIO) -> None:
    """Let a file take any text: what its encoding has no form for, such as half of a surrogate pair, becomes "?"."""
    if isinstance(file, TextIOWrapper):
        file.reconfigure(errors="replace")


def write_now(text: str, *, show_cursor: bool = True) -> None:
    """Write to standard error at once, past all buffers and locks: another thread may be in the middle of printing.

    Args:
        text: What to write.
        show_cursor: Whether to show a terminal's cursor, which progress bars hide; for a process that is about to end.
    """
    cursor = _SHOW_CURSOR if show_cursor and sys.stderr.isatty() else ""
    os.write(2, (cursor + text).encode())


def discard_output() -> None:
    """Send standard output nowhere from now on, because nobody reads it; else Python complains when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
