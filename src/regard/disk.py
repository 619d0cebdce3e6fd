"""Write files, completely and synchronised to the disk. The other modules of the package write their files with this one.

A new file is written under another name in the same folder, synchronised and renamed; then the folder is synchronised. So at
any moment, even after a full disk, Ctrl-C, SIGKILL or a power failure, either the old file or the complete new file exists.
There are two exceptions: logs, to which lines are appended, and paths that are not ordinary files, such as pipes and devices.
Other libraries write a few files, such as the logs for TensorBoard, in their own way.

The module also has the lock files that keep two processes from writing the same folder.
"""

import errno
import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

from regard.errors import DataError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:  # every other system
    msvcrt = None  # type: ignore[assignment]

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Error numbers for a full disk, an exhausted quota, and a file that exceeds the size limit."""

_LOCKED_BYTE = 1 << 30
"""Offset of the byte that is locked on Windows. It is far after the file's content, because Windows does not let other
processes read a locked byte.
"""

_NO_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF))
_SEAL = b"\nsha256 %b\n"
_SEAL_SIZE = len(_SEAL) - 2 + 64


def flush(path: Path) -> None:
    """Synchronise a file, or the list of names in a folder, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open folders
    # Windows flushes only files that are open for writing.
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, *parts: str | bytes | memoryview) -> None:
    """Write a complete file; see `whole_file`. Text is written as UTF-8.

    Raises:
        OSError: If the file cannot be written. The old file is unchanged.
    """
    with whole_file(path) as file:
        for part in parts:
            file.write(part.encode() if isinstance(part, str) else part)


def save(path: str | Path, content: str | bytes) -> None:
    """Write a file to a path that the user gave.

    Raises:
        DataError: If the file cannot be written. No incomplete file remains.
    """
    path = Path(path)
    try:
        write(path, content)
    except OSError as error:
        missing = "" if path.parent.is_dir() else f": there is no folder {path.parent}, make it first"
        raise DataError(f"{path}: cannot be written: {error.strerror}{missing}") from error


def beside(path: Path) -> Path:
    """Return the path of the temporary file in which `whole_file` writes the new content of `path`.

    A second process that writes `path` at the same time uses another temporary file, except on Windows and on file
    systems without locks.
    """
    return path.with_name(f"{path.name}.new")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces the old one in a single step at the end; after an error, the old file is unchanged.

    If `path` is a symbolic link, the file that the link points to is replaced. Pipes and devices are written directly.

    Raises:
        OSError: If the file cannot be written. The error names `path`.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb") as straight:
            yield straight
        return
    draft = beside(path)
    try:
        draft, file = _open_draft(path)
        with file:  # locked until it is closed, so that no other process opens, renames or deletes the temporary file
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is None:
                    file.close()  # Windows cannot rename open files
                os.replace(draft, path)
            except BaseException:
                with suppress(OSError):  # fails if the file system has become read-only
                    draft.unlink(missing_ok=True)
                raise
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == str(draft):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    flush(path.absolute().parent)


@contextmanager
def whole_text(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing, as `whole_file` does, in UTF-8 and with line feeds as line ends.

    Raises:
        OSError: If the file cannot be written.
    """
    with whole_file(path) as raw:
        file = TextIOWrapper(raw, encoding="utf-8", newline="\n")
        try:
            yield file
        finally:
            file.detach()  # writes its buffer to the raw file


def rename(old: Path, new: Path) -> None:
    """Rename a file or a folder, and synchronise the folder that then contains it.

    A file, or an empty folder, that already has the new name is replaced.

    Raises:
        OSError: If the file or folder cannot be renamed.
    """
    os.replace(old, new)
    flush(new.absolute().parent)


def keep_as(path: Path, name: Path) -> None:
    """Give a file a second name, as a hard link; if the file system has no hard links, rename the file instead.

    A file that already has the second name is replaced. The first name exists at all times, unless the file is renamed.

    Raises:
        OSError: If the file can neither get a second name nor be renamed.
    """
    spare = beside(name)
    with suppress(OSError):
        spare.unlink(missing_ok=True)
        os.link(path, spare)
    rename(spare if spare.exists() else path, name)
    with suppress(OSError):  # `spare` remains if both names already belonged to one file: renaming then does nothing
        spare.unlink(missing_ok=True)


def append(path: Path, content: str | bytes) -> None:
    """Append to a file in a single write.

    Raises:
        OSError: If the file cannot be written.
    """
    with open(path, "ab") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_log(path: Path) -> TextIO:
    """Open a text file for appending lines; the caller closes it.

    Raises:
        OSError: If the file cannot be opened.
    """
    return path.open("a", newline="", encoding="utf-8")


def _open_draft(path: Path) -> tuple[Path, BinaryIO]:
    """Open an empty temporary file beside `path`, lock it where possible, and return its path and the file.

    Its path is `beside(path)`, or has a random part if another process is writing `path` at the same time.
    """
    draft = beside(path)
    if fcntl is None:
        return draft, open(draft, "wb")
    handle, holder = _open_locked(draft, wait=False, mode=0o666)
    if holder:
        os.close(handle)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.ftruncate(handle, 0)  # a killed process may have left content
        with suppress(OSError):
            os.fchmod(handle, stat.S_IMODE(os.stat(path).st_mode))
        return draft, os.fdopen(handle, "wb")
    except BaseException:
        with suppress(OSError):  # if there is no memory for the file's buffer, fdopen has already closed the handle
            os.close(handle)
        raise


def seal_of(content: bytes | memoryview) -> bytes:
    """Return the checksum line to append to a file's content; it reveals damage to the content and to the line itself."""
    return _SEAL % hashlib.sha256(content).hexdigest().encode()


def unseal(data: bytes) -> memoryview:
    """Return the content of a file without its checksum line, which `seal_of` made.

    Raises:
        ValueError: If there is no checksum line, or it does not match the content.
    """
    content = memoryview(data)[: max(0, len(data) - _SEAL_SIZE)]
    if data[len(content) :] != seal_of(content):
        raise ValueError("its content does not match its checksum")
    return content


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[str]:
    """Hold a lock file while the context is open, and delete it afterwards; the lock also ends if the process is killed.

    Args:
        path: The lock file, in an existing folder.
        wait: Whether to wait until another process releases the lock.

    Yields:
        An empty string if this process now holds the lock; else the holder, such as `process 1234 on this machine`.

    Raises:
        OSError: If the file cannot be created.
    """
    handle, holder = _open_locked(path, wait)
    try:
        if not holder:
            with suppress(OSError):  # on a full disk, the lock file has no process number
                os.lseek(handle, 0, os.SEEK_SET)
                size = os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
                os.ftruncate(handle, size)  # a killed process may have left a longer line
        yield holder
    finally:
        if not holder and fcntl is not None:
            with suppress(OSError):
                path.unlink()  # before the lock ends; after that, another process could have locked the file
        os.close(handle)
        if not holder and fcntl is None:
            with suppress(OSError):  # Windows cannot delete a file that another process has open
                path.unlink()


def holder_of(path: Path) -> str:
    """Return the holder of a lock file, such as `process 1234 on this machine`, or an empty string if no process holds it.

    The file is neither created nor changed.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return ""
    try:
        _lock(handle, shared=True)
    except (BlockingIOError, PermissionError):
        return _describe(_read_start(handle))
    except OSError:  # some network file systems have no locks
        return ""
    finally:
        os.close(handle)
    return ""


def _open_locked(path: Path, wait: bool, mode: int = 0o644) -> tuple[int, str]:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), mode)
        try:
            _lock(handle, wait=wait)
        except (BlockingIOError, PermissionError):
            return handle, _describe(_read_start(handle))
        except OSError as error:
            if error.errno in _NO_LOCKS:  # some network file systems
                return handle, ""
            os.close(handle)
            raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle, ""
        os.close(handle)  # the previous holder deleted the file just before it released the lock


def _lock(handle: int, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file until it is closed.

    Raises:
        BlockingIOError: If another process has locked it and `wait` is False; on Windows, this is a PermissionError.
        OSError: If the file system has no locks.
    """
    if fcntl is not None:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        return
    while True:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            if not wait:
                raise
            time.sleep(0.05)
        else:
            return


def _read_start(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, 300)


def _describe(content: bytes) -> str:
    number, _, host = content.partition(b"\n")[0].decode(errors="replace").partition(" ")
    if not number.isdecimal():
        return "another process"
    return f"process {number} on {'this machine' if host == socket.gethostname() else host}"
