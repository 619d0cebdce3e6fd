"""A file that several processes write: each writes its own part, and the first process joins the parts.

    OUT.parts/KEY/0002        the complete part of process 2
    OUT.parts/KEY/0003.new    the part that process 3 is writing; the process touches the file every few seconds
    OUT.parts/KEY/0002.begun  one byte for each time that process 2 was started
    OUT.new                   all parts; the file is then renamed to OUT

KEY identifies the inputs of all parts, so that a new attempt reuses only those parts of a failed attempt that have the same
inputs.

OUT itself appears only when it is complete. If OUT is a link, all these files are beside the file that it points to; if it is a
pipe or a device, a single process writes directly to it.
"""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TextIO

from regard.disk import append, beside, open_ordinary, whole_file, whole_text
from regard.errors import RequestError
from regard.processes.ranks import Ranks

_TOUCHED_EVERY = 2.0
PATIENCE = 60.0
"""Seconds that the first process waits for another process that shows no sign of life."""


class PartedFile:
    """A file that all processes write, as seen by one of them.

    Args:
        path: Path of the complete file.
        ranks: Rank of this process.
        key: Identifier of the inputs, which consists of letters and digits.

    Raises:
        RequestError: If the path cannot be written, or is a pipe or a device and there are several processes.
    """

    def __init__(self, path: str | Path, ranks: Ranks, key: str) -> None:
        self._path, self._ranks = Path(path), ranks
        self._straight = self._path.exists() and not self._path.is_file() and not self._path.is_dir()
        if self._straight:
            if not ranks.alone:
                raise RequestError(
                    f"--output is '{path}', which is a pipe or a device: {ranks.world_size} processes cannot share it; name a "
                    "file, or start one process"
                )
            return
        self._path = Path(os.path.realpath(path))
        if self._path.is_symlink():
            raise RequestError(f"--output is '{path}', which is a link to itself; name a file")
        self._folder = beside(self._path, "parts") / key
        if self._path.is_dir() or not self._path.absolute().parent.is_dir():
            what = "is a folder" if self._path.is_dir() else f"is in '{self._path.parent}', which is not a folder"
            raise RequestError(f"--output is '{path}', which {what}; name a file in an existing folder")

    def begin(self) -> bool:
        """Record that this process has started.

        Returns:
            Whether an earlier attempt has already completed the part of this process.

        Raises:
            OSError: If the folder of the parts cannot be written, for example on a full disk.
        """
        if self._ranks.alone:
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        done = self._part(self._ranks.rank).exists()
        # Recorded after the check, because the parts may be joined and removed once all processes have started.
        append(self._begun(self._ranks.rank), ".")
        return done

    @contextmanager
    def writing(self) -> Iterator[TextIO]:
        """Open this process's part for writing; after an error, the part does not exist.

        Raises:
            OSError: If the part cannot be written, for example on a full disk.
        """
        if self._straight:
            with whole_text(self._path, follow=True) as file:
                yield file
            return
        part = self._path if self._ranks.alone else self._part(self._ranks.rank)
        part.parent.mkdir(parents=True, exist_ok=True)
        # A single process needs no sign of life. If memory is short, starting the thread could make it wait for ever.
        with whole_text(part) as file, nullcontext() if self._ranks.alone else _touching(beside(part)):
            yield file

    def finish(self) -> None:
        """Wait until all parts exist, and join them; only the first process does this.

        Raises:
            RequestError: If a process without a complete part has shown no sign of life for `PATIENCE` seconds.
            OSError: If the file cannot be written, for example on a full disk.
        """
        if self._ranks.alone or not self._ranks.first:
            return
        self._wait()
        with whole_file(self._path) as whole:
            for rank in range(self._ranks.world_size):
                with open_ordinary(self._part(rank)) as part:
                    shutil.copyfileobj(part, whole, 1 << 20)
        self._wait_for_the_late()
        shutil.rmtree(self._folder.parent, ignore_errors=True)

    def _wait(self) -> None:
        """Wait until all parts exist."""
        seen: dict[int, tuple[float, float]] = {}
        while missing := [rank for rank in range(self._ranks.world_size) if not self._part(rank).exists()]:
            now = time.monotonic()
            for rank in missing:
                sign = 0.0
                with suppress(OSError):
                    sign = beside(self._part(rank)).stat().st_mtime
                # Times of files are compared with each other and never with a clock, because clocks of hosts differ.
                if rank not in seen or seen[rank][0] != sign:
                    seen[rank] = (sign, now)
                elif now - seen[rank][1] > PATIENCE:
                    raise RequestError(
                        f"process {rank} of {self._ranks.world_size} has not finished its part of {self._path}, and has "
                        f"shown no sign of life for {PATIENCE:.0f} s; the complete parts are kept in {self._folder}: run "
                        "the same command again to reuse them (every host must have access to that folder)"
                    )
            time.sleep(0.1)

    def _wait_for_the_late(self) -> None:
        """Wait until all processes have started as often as this one, but at most `PATIENCE` seconds.

        A process that starts only after the parts are removed would write its part again.
        """
        end = time.monotonic() + PATIENCE
        while any(self._attempts(rank) < self._attempts(0) for rank in range(self._ranks.world_size)):
            if time.monotonic() > end:
                return
            time.sleep(0.1)

    def _attempts(self, rank: int) -> int:
        try:
            return self._begun(rank).stat().st_size
        except OSError:
            return 0

    def _begun(self, rank: int) -> Path:
        return self._folder / f"{rank:04}.begun"

    def _part(self, rank: int) -> Path:
        return self._folder / f"{rank:04}"


@contextmanager
def _touching(path: Path) -> Iterator[None]:
    """Touch a file every few seconds while the context is open, as a sign of life."""
    over = threading.Event()

    def touch() -> None:
        while not over.wait(_TOUCHED_EVERY):
            with suppress(OSError):
                os.utime(path)

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
