"""Output to the terminal. All text is printed here, so that untrusted text cannot control the terminal.

Only bars and coloured text go through `regard.console`. Ruff's rule T20 forbids `print` elsewhere in the package.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO, TextIOWrapper
from typing import Any, TextIO

from regard.errors import printable

_SHOW_CURSOR = "\x1b[?25h"


def show(text: str, *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print a text. On terminals and on standard error, control characters are escaped (`regard.errors.printable`).

    Other files and pipes get the text unchanged, because another program may read it.
    """
    file = sys.stdout if file is None else file
    if file is not None and (file is sys.stderr or file.isatty()):
        text = printable(text)
    print(text, file=file, end=end, flush=flush)


@contextmanager
def printable_warnings() -> Iterator[None]:
    """Write warnings for the command line while the context is open. Those of regard's own classes have no line of code.

    Control characters are escaped, because warnings may contain names of files.
    """
    usual = warnings.formatwarning

    def readable(message: Any, category: type[Warning], *place: Any, **named: Any) -> str:
        own = category.__module__.startswith("regard.")
        return printable(f"regard: {message}\n" if own else usual(message, category, *place, **named))

    warnings.formatwarning = readable
    try:
        yield
    finally:
        warnings.formatwarning = usual


def replace_unwritable(file: TextIO) -> None:
    """Make a file accept any text: characters that its encoding cannot represent are written as "?"."""
    if isinstance(file, TextIOWrapper):
        file.reconfigure(errors="replace")


def write_now(text: str, *, show_cursor: bool = True) -> None:
    """Write to standard error at once, without buffers and locks, because another thread may be printing.

    `show_cursor` shows the terminal's cursor again, which progress bars hide, because the process is about to end.
    """
    cursor = _SHOW_CURSOR if show_cursor and sys.stderr.isatty() else ""
    os.write(2, (cursor + printable(text)).encode())


def open_closed_streams() -> None:
    """Open the null device in place of closed standard streams; otherwise, the next opened files would get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            if handle == number and number:  # sys.stdin stays None, so that commands can report it
                setattr(sys, name, TextIOWrapper(FileIO(handle, "w"), encoding="utf-8"))


def discard_output(file: TextIO) -> None:
    """Discard what is printed to a file from now on; otherwise, Python prints an error at exit if the pipe is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
