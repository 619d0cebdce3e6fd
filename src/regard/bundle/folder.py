"""Replace several files of a folder at once, and read files that are not trusted.

Replacing several files takes several renames, and a machine can stop between any two of them. So the new files are first
written to a subfolder, and a single rename of this subfolder makes them valid. Afterwards, they are moved from the subfolder to
the folder, but this is only tidying up: readers look for a file in the subfolder first, and if the move is interrupted, the
next writer completes it.

    .incoming.tmp/   new files that are still being written; readers ignore them
    .incoming/       complete new files, which replace the files of the same name in the folder
    .writing         lock file of a writer, for which other writers wait
"""

import os
import shutil
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
    """Yield an empty folder for new files, which replace files of the same name in `folder` when the `with` block ends.

    All files are replaced in a single step, and other files in `folder` stay. If the block raises an error, nothing is
    replaced. Only one process can write at a time; others wait.

    Raises:
        BundleError: If a file or folder cannot be written.
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
    """Return the path of the valid version of a file: in `.incoming` if it exists there, else in the folder itself."""
    waiting = folder / _INCOMING / name
    return waiting if not (folder / _INCOMING).is_symlink() and os.path.lexists(waiting) else folder / name


def read(folder: Path, name: str, *, largest: int = _LARGEST) -> bytes:
    """Return the content of a file that is not trusted, such as `config.yaml`, of at most `largest` bytes.

    If the name comes from another file, check it first: it could lead out of the folder.

    Raises:
        BundleError: If the file is missing, is not an ordinary file or is in a linked folder (a link could lead out of the
            model's folder), is too large, or cannot be read.
    """
    path = find(folder, name)
    try:
        for inner in (folder / part for part in path.relative_to(folder).parents[:-1]):
            if inner.is_symlink():
                raise BundleError(f"{inner} is a link, expected the folder itself: copy it there")
        return disk.read(path, largest)
    except MemoryError as error:
        raise BundleError(f"{path} has {path.stat().st_size:,} bytes, more than this machine's memory can hold") from error
    except FileNotFoundError as error:
        raise BundleError(f"{path} is missing: the model's folder is incomplete; copy the whole folder again") from error
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}") from error


def read_unsigned(folder: Path, name: str, largest: int) -> bytes | None:
    """Return the content of a file whose checksum is not in the signature; None if it is missing, too large or unreadable."""
    if not os.path.lexists(find(folder, name)):
        return None
    try:
        return read(folder, name, largest=largest)
    except BundleError:
        return None


def version(folder: Path) -> tuple[int, int]:
    """Return a value that changes whenever `replacing` replaces files of the folder."""

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
