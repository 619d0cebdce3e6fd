"""A cache of prepared data, in which each entry is either complete or missing.

The name of an entry has a hash of the settings that affect its content, and a hash of the files. An entry is first written
under another name, then synchronised to disk and renamed. Its manifest contains the size and hash of every file, so that a
damaged entry is detected and made again.
"""

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from regard import disk
from regard.config.data import FileSettings
from regard.config.fields import Role, facts_of
from regard.errors import DataError
from regard.text.opening import check_file

T = TypeVar("T")

FORMAT_VERSION = 12
"""Version of the entries. Increase it when a change of the code gives another entry for the same files and settings."""

MANIFEST = "manifest.json"

_FULL = (errno.ENOSPC, errno.EDQUOT)
_WRITING_FAILS = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EIO, errno.EFBIG)
ABANDONED_AFTER = 24 * 3600.0
"""Number of seconds after which the unfinished work of a killed run is deleted."""


def cache_folder(data: FileSettings) -> Path:
    """Return the folder of the cache: `data.cache`, else REGARD_CACHE, else `regard` in the user's cache folder."""
    chosen = data.cache or os.environ.get("REGARD_CACHE", "")
    try:
        return Path(chosen or os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / ("" if chosen else "regard")
    except RuntimeError as error:
        raise DataError(
            "prepared data and downloaded models cannot be stored, because this user has no home folder; name a folder with "
            f"data.cache or REGARD_CACHE ({error})"
        ) from error


def hash_files(paths: Sequence[str], what: str = "sentence pairs") -> list[str]:
    """Return the SHA-256 hash of each file; `what` is their expected content, for messages."""
    digests = []
    for path in paths:
        with check_file(path, what).open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digests


def fingerprint_of(digests: Sequence[str]) -> str:
    """Return one hash for several files, computed from their hashes in the given order."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def prepared_settings(data: FileSettings) -> dict[str, Any]:
    """Return the settings of `data` that affect the prepared data, except for the names of the files."""
    beside = {Role.FILE, Role.ADJUSTABLE, Role.DERIVED}
    return {name: value for name, value in asdict(data).items() if not facts_of(type(data))[name].roles & beside}


def entry_name(settings: Mapping[str, Any], kinds: Collection[str]) -> str:
    """Return the first part of the name of an entry: a hash of the settings and of versions of the software."""
    # The second part is a hash of the files' bytes. Names of files do not affect the name, unless `settings` contains them.
    versions = {}
    for package in ("tokenizers", *(["spacy"] if "spacy" in kinds else [])):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    decisive = {"format": FORMAT_VERSION, **settings, "versions": versions, "unicode": unicodedata.unidata_version}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]


@contextmanager
def workspace(cache: Path) -> Iterator[Path]:
    """Yield an empty folder in the cache, which is deleted at the end unless `publish` renamed it."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(cache)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=cache, ignore_cleanup_errors=True) as folder:
            made = Path(folder, "made")  # other users may read it, unlike a folder that `tempfile` made
            made.mkdir()
            yield made
    except OSError as error:
        if error.errno not in _WRITING_FAILS:
            raise
        what = f"{error.strerror or error}; name another folder with data.cache or REGARD_CACHE"
        if error.errno in _FULL:
            what = "the disk is full; free some space, or name a folder on another disk with data.cache"
        raise DataError(f"{cache}: prepared data cannot be written here: {what}") from error


def publish(work: Path, entry: Path, load: Callable[[], T | None]) -> T:
    """Make a finished folder of `workspace` an entry, and return the content of the entry, which `load` reads."""
    # If another run has published a complete entry already, that entry is kept. A damaged entry is replaced.
    files = {path.name: [path.stat().st_size, _hash(path)] for path in sorted(work.iterdir())}
    disk.write(work / MANIFEST, json.dumps(files, indent=1))
    disk.name_folder(work, entry, replace=entry.exists() and not is_whole(entry))
    if (content := load()) is None:
        raise DataError(
            f"{entry}: prepared data was written but cannot be read back; check the disk, or set data.cache to another folder"
        )
    return content


def is_whole(entry: Path) -> bool:
    """Return whether an entry exists and all its files are unchanged."""
    try:
        files = json.loads(disk.read(entry / MANIFEST, 1 << 20))
        sizes = all((entry / name).stat().st_size == size for name, (size, _) in files.items())
        return sizes and all(_hash(entry / name) == digest for name, (_, digest) in files.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def _hash(path: Path) -> str:
    with disk.open_ordinary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _clear_abandoned(cache: Path) -> None:
    for folder in cache.glob(".unfinished-*"):
        with suppress(OSError):  # another run has just deleted it
            newest = max(path.stat().st_mtime for path in [folder, *folder.rglob("*")])
            if time.time() - newest > ABANDONED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)
