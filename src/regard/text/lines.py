"""Bytes of a file, plain or gzip, as blocks of numbered lines.

A line ends at `\\n` and nowhere else: a lone `\\r`, U+2028 or U+0085 inside a sentence does not split it. The `\\r` of CRLF is
left at the end, where stripping takes it away.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.errors import DataError, nearest

BLOCK_BYTES = 1 << 19
"""Read at once: so little that the lines of a block stay in the processor's cache (a block of 4 MB is half as fast)."""
LONGEST_LINE = 1 << 24
"""Bytes of a line that is still held in memory; more are passed over, so that a file without line ends cannot fill it."""
LONGEST_SIDE = 1 << 16
"""Characters of a sentence or text; what is longer is none, and would only feed memory to tokenizers."""
CHUNK_CHARACTERS = 1 << 22
"""Of the rows that are held at once, where a row can be long; always one row at least."""

OVER_LONG_LINE = "\x00over-long line"
"""Stands in for a line beyond `LONGEST_LINE`; recognised by identity."""


def check_file(path: str | Path, what: str = "sentence pairs") -> Path:
    """The path, if it is a readable file with something in it.

    Args:
        path: The file.
        what: What is expected in it, for messages.

    Raises:
        DataError: If it is missing, a folder or empty, or may not be read.
    """
    path = Path(path)
    try:
        if not path.exists():
            beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
            raise DataError(f"{path}: there is no such file{nearest(path.name, beside) or '; check the path'}")
    except (OSError, ValueError) as error:  # a name that no file can have, or a folder that may not be looked into
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', error)}); check the path") from error
    if path.is_dir():
        raise DataError(f"{path}: is a folder, expected a file of {what}; name the file in it")
    if not path.is_file():
        raise DataError(f"{path}: is a pipe or device, and data is read more than once; write it to a file first")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if empty:
        raise DataError(f"{path}: is empty, expected {what}")
    return path


_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ": "packed with xz",
    b"BZh": "packed with bzip2",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
}


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file, through gzip if its first bytes say so, and turn what goes wrong while reading into a DataError.

    Raises:
        DataError: As `check_file`; or the file is cut short or damaged.
    """
    path = check_file(path)
    with path.open("rb") as plain:
        magic = plain.read(6)
        zipped = magic.startswith(b"\x1f\x8b")
        for start, what in _ARCHIVES.items():
            if magic.startswith(start):
                raise DataError(f"{path}: is {what}, expected plain or gzip; unpack it first")
        plain.seek(0)
        file: IO[bytes] = gzip.GzipFile(fileobj=plain) if zipped else plain  # type: ignore[assignment]
        try:
            yield file
        except EOFError as error:
            raise DataError(f"{path}: the gzip file ends too early; copy or download it again") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{path}: the gzip file is damaged ({error}); copy or download it again") from error
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error})") from error


def line_blocks(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file in small blocks.

    Bytes that are not UTF-8 become lone surrogates (`surrogateescape`), which `readers.clean` finds and reports. A byte order
    mark at the start is taken away.

    Yields:
        The number of the block's first line, from 1, and the lines.

    Raises:
        DataError: As `open_bytes`; or the file is UTF-16.
    """
    with open_bytes(path) as file:
        number, rest, passing = 1, b"", False
        start = True
        while data := file.read(BLOCK_BYTES):
            if start:
                data, start = _strip_mark(data, path), False
            if passing:
                cut = data.find(b"\n")
                if cut < 0:
                    continue
                yield number, [OVER_LONG_LINE]
                number, passing, data = number + 1, False, data[cut + 1 :]
            data = rest + data
            cut = data.rfind(b"\n")
            if cut >= 0:
                lines = _decode(data[:cut]).split("\n")
                yield number, lines
                number += len(lines)
            rest = data[cut + 1 :]
            if len(rest) > LONGEST_LINE:
                rest, passing = b"", True
        if passing:
            yield number, [OVER_LONG_LINE]
        elif rest:
            yield number, [_decode(rest)]


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="surrogateescape")


def _strip_mark(data: bytes, path: str | Path) -> bytes:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: is UTF-16, expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8 {path} > NEW")
    return data.removeprefix(b"\xef\xbb\xbf")
