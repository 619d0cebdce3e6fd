"""Opening files, plain or gzip, with clear errors."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.errors import DataError, nearest


def check_file(path: str | Path, what: str = "sentence pairs") -> Path:
    """Return the path, if it is a readable file that is not empty.

    Args:
        path: The file.
        what: Expected content of the file, for messages.

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
    """Open a file, through gzip if its first bytes say so, and turn errors while reading into a DataError.

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
