"""Lines that a command is given to work on: from a file, or from standard input as they come."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import chain
from queue import Empty, Queue
from threading import Thread
from typing import IO, TextIO

from regard.errors import DataError, RequestError

_AT_ONCE = 1024
"""Most lines of standard input taken together."""


def read_lines(path: str, verb: str) -> Iterator[str]:
    """The lines of a text file, .gz too, which is opened at once so that a missing one is found before anything else is done.

    Args:
        path: The file.
        verb: What is done with the lines, for messages.

    Raises:
        DataError: If it cannot be read, or is empty.
    """
    lines = _lines_in(path)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path} is empty: nothing to {verb}")
    return chain((first,), lines)


def _lines_in(path: str) -> Iterator[str]:
    try:
        with open(path, "rb") as plain:
            zipped = plain.peek(2).startswith(b"\x1f\x8b")
            file: IO[bytes] = gzip.GzipFile(fileobj=plain) if zipped else plain  # type: ignore[assignment]
            # As in files of pairs, a line ends at \n and nowhere else.
            with TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="\n") as lines:
                unreadable, first = 0, 0
                for number, line in enumerate(lines, 1):
                    if "\ufffd" in line:
                        unreadable, first = unreadable + 1, first or number
                    yield line.rstrip("\r\n")
                if unreadable:
                    print(
                        f"regard: {unreadable:,} lines of {path} are not all UTF-8 (the first: line {first:,}); "
                        "what cannot be read is taken as \ufffd",
                        file=sys.stderr,
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"cannot read {path}: the gzip file is cut short or damaged ({error}); copy it again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def typed_lines(command: str, what: str) -> Iterator[list[str]]:
    """Lines of standard input, in groups.

    Args:
        command: Who asks, for messages.
        what: What a line is.

    Raises:
        RequestError: If there is no standard input.
    """
    if sys.stdin is None:
        raise RequestError(f"{command}: standard input is closed; give {what}s, or --input FILE")
    if sys.stdin.isatty():
        print(f"Type a {what} and Enter; Ctrl-D ends.", file=sys.stderr)
    return _available(sys.stdin)


def _available(stream: TextIO) -> Iterator[list[str]]:
    """Lines in groups: wait for one, then take what is there already. A pipe that waits for each answer gets it at once,
    and a pipe that sends much is translated in large batches."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8-sig", errors="replace", newline="\n")
    queue: Queue[str | None] = Queue(2 * _AT_ONCE)  # a pipe may hold more than fits into memory

    def read() -> None:
        for line in stream:
            queue.put(line.rstrip("\r\n"))
        queue.put(None)

    Thread(target=read, daemon=True).start()
    while (line := queue.get()) is not None:
        group = [line]
        while len(group) < _AT_ONCE:
            try:
                more = queue.get(timeout=0.01)  # the reader may be between two lines of one write
            except Empty:
                break
            if more is None:
                queue.put(None)
                break
            group.append(more)
        yield group
