"""Write files, completely and synchronised to the disk. The other modules of the package write their files with this one.

A new file is written under another name in the same folder, synchronised and renamed; then the folder is synchronised. So at
any moment, even after a full disk, Ctrl-C, SIGKILL or a power failure, either the old file or the complete new file exists.
There are two exceptions: logs, to which lines are appended, and paths that are not ordinary files, such as pipes and devices.
Other libraries write a few files, such as the logs for TensorBoard, in their own way.
"""

import ctypes
import errno
import hashlib
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TextIO

from regard.errors import DataError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Error numbers for a full disk, an exhausted quota, and a file that exceeds the size limit."""

DRAFT = "unfinished"
"""Ending of temporary files for new content. A leftover file is deleted, so the ending is one that nobody would choose."""
# Number of bytes of the longest name that `_beside` extends. File systems allow 255, or 143 if they encrypt names.
_LONGEST_NAME = 120
_SEAL = b"\nsha256 %b\n"
_SEAL_SIZE = len(_SEAL) - 2 + 64
ORDINARY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags for opening a file of a folder that is not trusted: a link is not followed, and a pipe does not block."""
_NO_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF))


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


def read(path: Path, largest: int = 1 << 36) -> bytes:
    """Return the content of an ordinary file of at most `largest` bytes. It is not trusted; see `open_ordinary`."""
    with open_ordinary(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            what = f"it has {size:,} bytes, expected at most {largest:,}: regard did not write it"
            raise OSError(errno.EFBIG, what, str(path))
        return file.read(size)


def open_ordinary(path: Path, mode: str = "rb", **further: Any) -> Any:
    """Open a file of a folder that is not trusted for reading or appending; `further` are arguments of `open`.

    Raises:
        OSError: If it is a link, a folder, a pipe or a device, is missing, or cannot be opened.
    """
    flags = os.O_RDONLY if mode == "rb" else os.O_WRONLY | os.O_APPEND | os.O_CREAT
    handle = -1 if path.is_symlink() else os.open(path, flags | ORDINARY, 0o666)
    if handle < 0 or not stat.S_ISREG(os.fstat(handle).st_mode):
        if handle >= 0:
            os.close(handle)
        what = "it is not an ordinary file (a link or a folder), expected the file itself: copy it there"
        raise OSError(errno.ELOOP, what, str(path))
    return open(handle, mode, **further)


def write(path: Path, *parts: str | bytes | memoryview) -> None:
    """Write a complete file; see `whole_file`. Text is written as UTF-8."""
    with whole_file(path) as file:
        for part in parts:
            file.write(part.encode() if isinstance(part, str) else part)


def save(path: str | Path, content: str | bytes) -> None:
    """Write a file to a path that the user gave; a link is followed, and a pipe or a device is written directly.

    Raises:
        DataError: If the file cannot be written. No incomplete file remains.
    """
    path = Path(path)
    try:
        with whole_file(path, follow=True) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        missing = "" if path.parent.is_dir() else f": there is no folder {path.parent}, make it first"
        raise DataError(f"{path}: cannot be written: {error.strerror}{missing}") from error


def _beside(path: Path, ending: str = DRAFT) -> Path:
    """Return the path of the temporary file in which `whole_file` writes the new content of `path`.

    A second process that writes `path` at the same time uses another temporary file, except on Windows and on file
    systems without locks. Its name begins with that of `path`, or with a hash of it if the name is long.
    """
    name = os.fsencode(path.name)
    return path.with_name(f"{path.name if len(name) <= _LONGEST_NAME else hashlib.sha256(name).hexdigest()[:32]}.{ending}")


@contextmanager
def whole_file(path: Path, *, follow: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces the old one in a single step at the end; after an error, the old file is unchanged.

    A link, a pipe or a device of this name is replaced, too. With `follow`, because the user named `path`, the file that a link
    points to is replaced, and a pipe or a device is written to directly. Errors name `path`.
    """
    path = Path(os.path.realpath(path)) if follow and path.is_symlink() else path
    if follow and path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb") as straight:
            yield straight
        return
    draft = _beside(path)
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
def whole_text(path: Path, *, follow: bool = False) -> Iterator[TextIO]:
    """Open a text file for writing, as `whole_file` does, in UTF-8 and with line feeds as line ends."""
    with whole_file(path, follow=follow) as raw:
        file = TextIOWrapper(raw, encoding="utf-8", newline="\n")
        try:
            yield file
        finally:
            file.detach()  # writes its buffer to the raw file


def rename(old: Path, new: Path) -> None:
    """Rename a file or a folder, which replaces a file or an empty folder, and synchronise the folder that then contains it."""
    os.replace(old, new)
    flush(new.absolute().parent)


def exchange(new: Path, old: Path) -> None:
    """Exchange the names of two folders in one file system.

    On Linux, this is a single step. On other systems, `old` is missing for a moment; after an error, both keep their names.
    """
    try:
        failed = ctypes.CDLL(None).renameat2(-100, os.fsencode(new), -100, os.fsencode(old), 2)  # AT_FDCWD, RENAME_EXCHANGE
    except (AttributeError, TypeError):  # other systems
        failed = True
    if failed:
        aside = _beside(old, f"{secrets.token_hex(4)}.old")
        try:
            os.replace(old, aside)
            os.replace(new, old)
        except BaseException:
            if not old.exists():
                os.replace(aside, old)
            raise
        os.replace(aside, new)
    flush(old.absolute().parent)


@contextmanager
def whole_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty folder that gets the name `path` at the end, in a single step; after an error, nothing has changed.

    A link is followed, and missing folders above it are made. With `replace`, a folder that already has the name is deleted.
    Otherwise it stays, because another process has made the same, and the new one is deleted.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=".unfinished-") as temporary:
        made = Path(temporary, "made")
        made.mkdir()
        yield made
        name_folder(made, path, replace=replace)


def name_folder(made: Path, path: Path, *, replace: bool = False) -> None:
    """Rename a finished folder to `path`, in the same file system, in a single step.

    If a folder already has the name, the two exchange their names with `replace`; otherwise, both keep them.
    """
    if replace and path.exists():
        exchange(made, path)
        return
    try:
        rename(made, path)
    except OSError:
        if replace or not path.is_dir():
            raise


def _open_draft(path: Path) -> tuple[Path, BinaryIO]:
    """Open an empty temporary file beside `path`, lock it where possible, and return its path and the file.

    Its path is `_beside(path)`, or has a random part if another process is writing `path` at the same time.
    """
    draft = _beside(path)
    if fcntl is None:
        return draft, open(draft, "wb")
    handle, holder = open_locked(draft, wait=False, mode=0o666)
    if holder:
        os.close(handle)
        draft = _beside(path, f"{secrets.token_hex(4)}.{DRAFT}")
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):
            if stat.S_ISREG(old := os.lstat(path).st_mode):
                os.fchmod(handle, stat.S_IMODE(old))
        return draft, os.fdopen(handle, "wb")
    except BaseException:
        with suppress(OSError):  # if there is no memory for the file's buffer, fdopen has already closed the handle
            os.close(handle)
        raise


def seal_of(content: bytes | memoryview) -> bytes:
    """Return the checksum line to append to a file's content; it reveals damage to the content and to the line itself."""
    return _SEAL % hashlib.sha256(content).hexdigest().encode()


def unseal(data: bytes) -> memoryview:
    """Return the content of a file without its checksum line; raise a ValueError if that is missing or does not match."""
    content = memoryview(data)[: max(0, len(data) - _SEAL_SIZE)]
    if data[len(content) :] != seal_of(content):
        raise ValueError("its content does not match its checksum")
    return content


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[str]:
    """Hold a lock file while the context is open, and delete it afterwards; the lock also ends if the process is killed.

    With `wait`, the lock of another process is waited for. On Windows, and on file systems without locks, nothing is locked.

    Yields:
        An empty string if this process now holds the lock; else the holder, such as `process 1234 on this machine`.
    """
    if fcntl is None:
        yield ""
        return
    handle, holder = open_locked(path, wait)
    try:
        if not holder:
            with suppress(OSError):  # on a full disk, the lock file has no process number
                os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
        yield holder
    finally:
        if not holder:
            with suppress(OSError):
                path.unlink()  # before the lock ends; after that, another process could have locked the file
        os.close(handle)


def holder_of(path: Path) -> str:
    """Return the holder of a lock file, such as `process 1234 on this machine`, or an empty string if no process holds it.

    The file is neither created nor changed.
    """
    with suppress(OSError, AttributeError):  # without the file, or on systems and network file systems without locks
        handle = os.open(path, os.O_RDONLY | ORDINARY)
        try:
            if not path.is_symlink() and stat.S_ISREG(os.fstat(handle).st_mode):
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(handle)
        finally:
            os.close(handle)
    return ""


def open_locked(path: Path, wait: bool, mode: int = 0o644) -> tuple[int, str]:
    """Open and lock an empty file; return it, and its holder if another process has locked it.

    Another file of this name is deleted and never written to: a killed process left it, or it is a hard link, a symbolic link
    or a pipe, which an archive from a stranger can contain.
    """
    while True:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | ORDINARY, mode)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                return handle, _holder(handle)
            except OSError as error:
                if error.errno not in _NO_LOCKS:  # some network file systems
                    raise
            with suppress(FileNotFoundError):  # the previous holder deleted the file just before it released the lock
                state = os.fstat(handle)
                if os.path.samestat(state, os.lstat(path)):
                    if stat.S_ISREG(state.st_mode) and not state.st_size and state.st_nlink == 1:
                        return handle, ""
                    path.unlink()
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _holder(handle: int) -> str:
    """Return the process whose number is in an open lock file."""
    os.lseek(handle, 0, os.SEEK_SET)
    number, _, host = os.read(handle, 300).partition(b"\n")[0].decode(errors="replace").partition(" ")
    if not number.isdecimal():
        return "another process"
    return f"process {number} on {'this machine' if host == socket.gethostname() else host}"
