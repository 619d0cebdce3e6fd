"""The input lines of a command, from a file or from standard input, and its output."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TextIO

from regard.disk import whole_text
from regard.errors import DataError, RequestError, one_line
from regard.processes.ranks import read_ranks
from regard.terminal import replace_unwritable, show
from regard.text.opening import LONGEST_SIDE, find_mark, open_bytes
from regard.text.rows import name_format

# Maximum number of lines of standard input that are processed together.
_AT_ONCE = 1024
# Number of characters per read while the rest of a line that is too long is skipped.
_PASSED_OVER = 1 << 20


def read_lines(path: str, verb: str, *, kept: int = LONGEST_SIDE) -> Iterator[str]:
    """Return the lines of a text file, which may be compressed as .gz; `verb` says in messages what happens to them.

    As in training data, a line may have at most 65,536 characters; a longer line is truncated to `kept` characters.
    """
    named = name_format(path)
    if named == "parquet":
        raise DataError(
            f"{path} is named like a Parquet file, expected a text file, or a table that ends in .csv, .tsv or .jsonl"
        )
    if named:
        show(
            f"regard: {one_line(path)} is named like a table, but is read as a text file, and every line is one text; to "
            f"{verb} one column, write it to a text file with one text per line",
            file=sys.stderr,
        )
    lines = _lines_in(path, kept)
    first = next(lines, None)  # read at once, so that a missing file is reported before a model is loaded
    if first is None:
        raise DataError(f"{path} is empty, so there is nothing to {verb}")
    return chain((first,), lines)


def _lines_in(path: str, kept: int) -> Iterator[str]:
    with open_bytes(path) as file:
        mark, encoding = find_mark(file)
        file.read(len(mark))
        # As in files of pairs, a line ends only at \n.
        with TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n") as lines:
            yield from _readable(lines, path, kept)


def _readable(file: TextIO, where: str, kept: int) -> Iterator[str]:
    """Yield lines without their ends, truncated if too long; report how many were, and how many are not valid UTF-8."""
    unreadable, too_long = (0, 0), (0, 0)  # number of lines, and the first of them
    number = 0
    while line := file.readline(LONGEST_SIDE + 2):  # + 2 for the line end, which may be \r\n
        number += 1
        text = line.rstrip("\r\n").removeprefix("\ufeff")  # joined files have a byte order mark at the beginning of each
        if "\ufffd" in text:
            unreadable = unreadable[0] + 1, unreadable[1] or number
        if len(text) > LONGEST_SIDE:
            too_long = too_long[0] + 1, too_long[1] or number
            text = text[:kept]
        yield text
        while line and not line.endswith("\n"):  # the rest is read in parts, so that it does not fill the memory
            line = file.readline(_PASSED_OVER)
    for (count, first), fault, effect in (
        (unreadable, "that are not valid UTF-8", "invalid bytes are read as \ufffd"),
        (too_long, f"of more than {LONGEST_SIDE:,} characters", f"only the first {kept:,} of each were read"),
    ):
        if count:
            show(f"regard: {one_line(where)}: lines {fault}: {count:,} (the first: line {first:,}); {effect}", file=sys.stderr)


@contextmanager
def output_file(path: str | None, command: str) -> Iterator[TextIO]:
    """Open the output of a command: standard output, or a file that appears when it is complete.

    If the path is a link, the file that it points to is written; a pipe or a device is written directly.
    """
    if not read_ranks().alone:
        raise RequestError(
            f"{command}: was started in {read_ranks().world_size} processes, expected one; several processes are for training: "
            "split the file with `split`, and start a command for each part"
        )
    if path is None:
        yield sys.stdout
        return
    # A pipe or a device cannot be replaced by a complete file.
    target, direct = Path(path), os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    if target.suffix.lower() == ".gz" and not direct:
        raise RequestError(f"--output is '{path}', but results are not compressed; name a file without .gz")
    if not direct:
        target = Path(os.path.realpath(path))
        if target.is_symlink():
            raise RequestError(f"--output is '{path}', which is a link to itself; name a file")
        if target.is_dir() or not target.parent.is_dir():
            what = "is a folder" if target.is_dir() else f"is in '{target.parent}', which is not a folder"
            raise RequestError(f"--output is '{path}', which {what}; name a file in an existing folder")
    with whole_text(target, follow=direct) as file:
        replace_unwritable(file)
        yield file


def typed_lines(command: str, what: str, *, kept: int = LONGEST_SIDE) -> Iterator[list[str]]:
    """Yield the lines of standard input in groups; `what` names the content of a line, and `kept` is as for `read_lines`."""
    if sys.stdin is None:
        raise RequestError(f"{command}: standard input is closed; give {what}s, or --input FILE")
    if sys.stdin.isatty():
        show(f"Type a {what} and Enter; Ctrl-D ends.", file=sys.stderr)
    return _available(sys.stdin, kept)


def _available(stream: TextIO, kept: int = LONGEST_SIDE) -> Iterator[list[str]]:
    """Yield the lines in groups: wait for one line, and then add all lines that have already arrived."""
    # So a program that waits for the answer to each line gets it at once, and a large input is processed in large batches.
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8-sig", errors="replace", newline="\n")
    queue: Queue[str | OSError | None] = Queue(2 * _AT_ONCE)  # bounded, because a pipe may deliver more than fits into memory

    def read() -> None:
        end: OSError | None = None
        try:
            for line in _readable(stream, "standard input", kept):
                queue.put(line)
        except OSError as error:  # a closed terminal or a failing disk; without this clause, the main thread would wait forever
            end = error
        queue.put(end)

    Thread(target=read, daemon=True).start()
    while isinstance(line := queue.get(), str):
        group = [line]
        while len(group) < _AT_ONCE:
            try:
                more = queue.get(timeout=0.01)  # lines of the same write arrive shortly after each other
            except Empty:
                break
            if not isinstance(more, str):
                queue.put(more)
                break
            group.append(more)
        yield group
    if line is not None:
        raise DataError(f"cannot read standard input: {line.strerror or line}") from line
