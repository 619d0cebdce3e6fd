"""Replace several files of a folder at once, and read files that are not trusted.

Replacing several files takes several renames, and a machine can stop between any two. So the new files are first written to a
folder beside the old ones, and a single rename of that folder makes them valid. Moving the files to their places afterwards is
only tidying up: readers do not depend on it, and if it is interrupted, the next writer completes it.

    .incoming.tmp/   being written; ignored
    .incoming/       complete; its files replace the files of the same name in the parent folder
    .writing         a lock; other writers wait
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard import disk
from regard.disk import locked
from regard.errors import BundleError

_INCOMING, _LOCK = ".incoming", ".writing"
_LARGEST = 1 << 36  # bytes


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder for new files, which replace the files of `folder` once all are written to disk.

    Other files in `folder` stay. After an error, nothing has changed. Other writers wait meanwhile.

    Raises:
        BundleError: If something cannot be written. The message names the reason.
    """
    fresh = not folder.exists()
    stage, incoming = folder / f"{_INCOMING}.tmp", folder / _INCOMING
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / _LOCK, wait=True):
            try:
                _tidy(folder)
                shutil.rmtree(stage, ignore_errors=True)
                stage.mkdir()
                yield stage
                disk.rename(stage, incoming)
                _tidy(folder)
            except BaseException:
                shutil.rmtree(stage, ignore_errors=True)
                raise
    except BaseException as error:
        if fresh and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        if isinstance(error, OSError):
            raise BundleError(
                f"cannot write the model to {folder}: {error.strerror or error}; what was there before is unchanged. "
                "Free some space or choose another folder"
            ) from error
        raise


def find(folder: Path, name: str) -> Path:
    """Return the path of the valid version of a file, which may not exist."""
    waiting = folder / _INCOMING / name
    return waiting if not (folder / _INCOMING).is_symlink() and os.path.lexists(waiting) else folder / name


def read(folder: Path, name: str, *, largest: int = _LARGEST) -> bytes:
    """Read a file that is not trusted.

    Args:
        folder: The bundle.
        name: Name of the file; an unchecked name from another file must not be used, because it could lead anywhere.
        largest: Maximum size in bytes.

    Raises:
        BundleError: If the file is missing, is not an ordinary file (a link could lead anywhere), is too large, or cannot be
            read.
    """
    path = find(folder, name)
    try:
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            raise BundleError(f"{path} is not an ordinary file (a link or a folder), expected the file itself: copy it there")
        if state.st_size > largest:
            raise BundleError(f"{path} has {state.st_size:,} bytes, expected at most {largest:,}: regard did not write it")
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            return file.read(state.st_size)
    except MemoryError as error:
        raise BundleError(f"{path} has {state.st_size:,} bytes, more than this machine's memory can hold") from error
    except FileNotFoundError as error:
        raise BundleError(f"{path} is missing: the model's folder is incomplete; copy the whole folder again") from error
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}") from error


def read_unsigned(folder: Path, name: str, largest: int) -> bytes | None:
    """Return the content of a file that is not signed; None if it is missing, too large or unreadable."""
    if not os.path.lexists(find(folder, name)):
        return None
    try:
        return read(folder, name, largest=largest)
    except BundleError:
        return None


def version(folder: Path) -> tuple[int, int]:
    """Return a value that changes whenever files of the folder are replaced."""

    def changed(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except OSError:
            return 0

    return changed(folder), changed(folder / _INCOMING)


def _tidy(folder: Path) -> None:
    """Move complete new files from `.incoming` into the folder, if there are any."""
    incoming = folder / _INCOMING
    if incoming.is_symlink() or not incoming.is_dir():
        return
    for path in sorted(incoming.iterdir()):
        disk.rename(path, folder / path.name)
    incoming.rmdir()
