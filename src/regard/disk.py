"""Writing files: every file of the package is written here, whole and synchronised to the disk.

A new file is written under another name beside its place, synchronised, renamed, and then its folder is synchronised. So at
any moment, and after a full disk, Ctrl-C, SIGKILL or a power failure, there is the old file or the new one, and never a part.
The two exceptions are logs, to which lines are appended, and paths that are no ordinary files: pipes and devices.

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
"""Error numbers for a full disk, a quota, or a limit on the size of files."""

_LOCKED_BYTE = 1 << 30
"""Offset of the byte that a lock covers on Windows, where nobody else may read a locked byte: far behind the file's content."""

_NO_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF))
_SEAL = b"\nsha256 %b\n"
_SEAL_SIZE = len(_SEAL) - 2 + 64


def flush(path: Path) -> None:
    """Have a file, or a folder's list of names, written to the disk itself."""
    if os.name == "nt" and path.is_dir():
        return  # folders cannot be opened there
    # Windows flushes only what is open for writing.
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, *parts: str | bytes | memoryview) -> None:
    """Write a file whole; see `whole_file`. Text is written as UTF-8.

    Raises:
        OSError: If it cannot be written. The old file is unchanged.
    """
    with whole_file(path) as file:
        for part in parts:
            file.write(part.encode() if isinstance(part, str) else part)


def save(path: str | Path, content: str | bytes) -> None:
    """Write a file that a user asked for by its path.

    Raises:
        DataError: If it cannot be written; nothing is left behind.
    """
    path = Path(path)
    try:
        write(path, content)
    except OSError as error:
        missing = "" if path.parent.is_dir() else f": there is no folder {path.parent}, make it first"
        raise DataError(f"{path}: cannot be written: {error.strerror}{missing}") from error


def beside(path: Path) -> Path:
    """Return where a file is while `whole_file` writes it, unless two processes write it at once."""
    return path.with_name(f"{path.name}.new")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its place all at once when it has been written; after an error the old file is unchanged.

    A link stays a link, and the file that it leads to is replaced. Pipes and devices are written straight.

    Raises:
        OSError: If it cannot be written. The error names `path`.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb") as straight:
            yield straight
        return
    draft = beside(path)
    try:
        draft, file = _open_draft(path)
        with file:  # locked until it is closed: meanwhile nobody else opens the draft, renames it or takes it away
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is None:
                    file.close()  # Windows renames no open files
                os.replace(draft, path)
            except BaseException:
                with suppress(OSError):  # a file system that has just turned read-only keeps it
                    draft.unlink(missing_ok=True)
                raise
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == str(draft):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    flush(path.absolute().parent)


@contextmanager
def whole_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, UTF-8 with line feeds, that is written like `whole_file`.

    Raises:
        OSError: If it cannot be written.
    """
    with whole_file(path) as raw:
        file = TextIOWrapper(raw, encoding="utf-8", newline="\n")
        try:
            yield file
        finally:
            file.detach()  # which writes what it holds into the raw file


def rename(old: Path, new: Path) -> None:
    """Rename a file or a folder, in place of a file or an empty folder that has the new name, and synchronise the folder.

    Raises:
        OSError: If it cannot be renamed.
    """
    os.replace(old, new)
    flush(new.absolute().parent)


def keep_as(path: Path, name: Path) -> None:
    """Give a file a second name, in place of the file that has it. Where a file system has no second names, rename it.

    At no moment is there no file of the first name, unless it is renamed.

    Raises:
        OSError: If it cannot be done.
    """
    spare = beside(name)
    with suppress(OSError):
        spare.unlink(missing_ok=True)
        os.link(path, spare)
    rename(spare if spare.exists() else path, name)


def append(path: Path, content: str | bytes) -> None:
    """Append to a file at once, as signs of life are.

    Raises:
        OSError: If it cannot be written.
    """
    with open(path, "ab") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_log(path: Path) -> TextIO:
    """Open a text file to append lines to, which the caller closes.

    Raises:
        OSError: If it cannot be opened.
    """
    return path.open("a", newline="", encoding="utf-8")


def _open_draft(path: Path) -> tuple[Path, BinaryIO]:
    """Open an empty file beside `path`, locked. If another process is writing the same file, the name is a random one."""
    draft = beside(path)
    if fcntl is None:
        return draft, open(draft, "wb")
    handle, holder = _open_locked(draft, wait=False, mode=0o666)
    if holder:
        os.close(handle)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.ftruncate(handle, 0)  # a killed process may have left something
        with suppress(OSError):
            os.fchmod(handle, stat.S_IMODE(os.stat(path).st_mode))
        return draft, os.fdopen(handle, "wb")
    except BaseException:
        os.close(handle)
        raise


def seal_of(content: bytes | memoryview) -> bytes:
    """Return the checksum to write after a file's content, so that damage anywhere in the two is noticed."""
    return _SEAL % hashlib.sha256(content).hexdigest().encode()


def unseal(data: bytes) -> memoryview:
    """Return the content before a seal.

    Raises:
        ValueError: If there is no seal, or another one than the content's.
    """
    content = memoryview(data)[: max(0, len(data) - _SEAL_SIZE)]
    if data[len(content) :] != seal_of(content):
        raise ValueError("its content is not what its checksum is of")
    return content


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[str]:
    """Hold a lock file, which is gone afterwards. The lock ends with the process, by whatever means that ends.

    Args:
        path: The file; its folder exists.
        wait: Until whoever holds it is done.

    Yields:
        Nothing, where it is held now; else who holds it, as `process 1234 on this machine`.

    Raises:
        OSError: If the file cannot be made.
    """
    handle, holder = _open_locked(path, wait)
    try:
        if not holder:
            with suppress(OSError):  # on a full disk the file is locked, without the number
                os.lseek(handle, 0, os.SEEK_SET)
                os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
        yield holder
    finally:
        if not holder and fcntl is not None:
            with suppress(OSError):
                path.unlink()  # while it is still locked: nobody else holds a file of this name
        os.close(handle)
        if not holder and fcntl is None:
            with suppress(OSError):  # Windows removes a file only while nobody has it open
                path.unlink()


def holder_of(path: Path) -> str:
    """Return the process that holds a lock file, as `locked` describes it; empty if none does.

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
        os.close(handle)  # its holder took the file away just before it let go of the lock


def _lock(handle: int, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file until it is closed.

    Raises:
        BlockingIOError: If another process has locked it. PermissionError on Windows.
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
    number, _, host = content.decode(errors="replace").strip().partition(" ")
    if not number.isdecimal():
        return "another process"
    return f"process {number} on {'this machine' if host == socket.gethostname() else host}"
