"""Lock files, which keep two processes from writing the same folder, and name the process that holds them."""

import errno
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:  # every other system
    msvcrt = None  # type: ignore[assignment]

ORDINARY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags for opening a file of a folder that is not trusted: a link is not followed, and a pipe does not block."""
_LOCKED_BYTE = 1 << 30
"""Offset of the byte that is locked on Windows. It is far after the file's content, because Windows does not let other
processes read a locked byte.
"""
_NO_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF))


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[str]:
    """Hold a lock file while the context is open, and delete it afterwards; the lock also ends if the process is killed.

    With `wait`, the lock of another process is waited for.

    Yields:
        An empty string if this process now holds the lock; else the holder, such as `process 1234 on this machine`.
    """
    handle, holder = open_locked(path, wait)
    try:
        if not holder:
            with suppress(OSError):  # on a full disk, the lock file has no process number
                os.lseek(handle, 0, os.SEEK_SET)
                size = os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
                os.ftruncate(handle, size)  # on Windows, a killed process may have left a longer line
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
    with suppress(OSError):  # without the file, or on network file systems without locks
        handle = os.open(path, os.O_RDONLY | ORDINARY)
        try:
            if not path.is_symlink() and stat.S_ISREG(os.fstat(handle).st_mode):
                _lock(handle, shared=True)
        except (BlockingIOError, PermissionError):
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
                _lock(handle, wait=wait)
            except (BlockingIOError, PermissionError):
                return handle, _holder(handle)
            except OSError as error:
                if error.errno not in _NO_LOCKS:  # some network file systems
                    raise
            with suppress(FileNotFoundError):  # the previous holder deleted the file just before it released the lock
                state = os.fstat(handle)
                if os.path.samestat(state, os.lstat(path)):
                    if fcntl is None or (stat.S_ISREG(state.st_mode) and not state.st_size and state.st_nlink == 1):
                        return handle, ""
                    path.unlink()
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


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


def _holder(handle: int) -> str:
    """Return the process whose number is in an open lock file."""
    os.lseek(handle, 0, os.SEEK_SET)
    number, _, host = os.read(handle, 300).partition(b"\n")[0].decode(errors="replace").partition(" ")
    if not number.isdecimal():
        return "another process"
    return f"process {number} on {'this machine' if host == socket.gethostname() else host}"
