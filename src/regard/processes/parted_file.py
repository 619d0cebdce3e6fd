"""A file that several processes write together: each its part aside, and the first puts the parts together.

    OUT.parts/KEY/0002        a part that is whole
    OUT.parts/KEY/0003.new    a part that is being written; touched every few seconds by whoever writes it
    OUT.parts/KEY/0002.begun  one byte per attempt of that process to find its part
    OUT.new                   all parts, on their way to OUT

KEY says what all parts are made from, so that the parts of an attempt that failed are taken over by the next, and those of
something else never are. OUT itself appears when it is whole, and not before. Where OUT is a link, all this is where it leads
to; where it is a pipe or a device, one process writes straight into it.
"""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TextIO

from regard.disk import append, beside, whole_file, whole_text
from regard.errors import RequestError
from regard.processes.ranks import Ranks

_TOUCHED_EVERY = 2.0
PATIENCE = 60.0
"""Seconds without a sign of life after which the first process gives another up."""


class PartedFile:
    """One process's view of a file that all write.

    Args:
        path: Where the whole goes.
        ranks: Which of the processes this is.
        key: Names what the file is made from, in letters and digits.

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
            raise RequestError(f"--output is '{path}', which is a link that leads back to itself; name a file")
        self._folder = self._path.with_name(f"{self._path.name}.parts") / key
        if self._path.is_dir() or not self._path.absolute().parent.is_dir():
            what = "is a folder" if self._path.is_dir() else f"is in '{self._path.parent}', which is no folder"
            raise RequestError(f"--output is '{path}', which {what}; name a file in a folder that is there")

    def begin(self) -> bool:
        """Tell the first process that this one has started.

        Returns:
            Whether this process's part is whole already, since an earlier attempt.

        Raises:
            OSError: If the disk is full.
        """
        if self._ranks.alone:
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        done = self._part(self._ranks.rank).exists()
        # Only now: once all processes have started, the parts may be put together and removed.
        append(self._begun(self._ranks.rank), ".")
        return done

    @contextmanager
    def writing(self) -> Iterator[TextIO]:
        """Open this process's part for writing; after an error there is no part.

        Raises:
            OSError: If the disk is full.
        """
        if self._straight:
            with whole_text(self._path) as file:
                yield file
            return
        part = self._path if self._ranks.alone else self._part(self._ranks.rank)
        part.parent.mkdir(parents=True, exist_ok=True)
        # Alone, nobody looks for signs of life, and a thread that memory does not suffice for would be waited for without end.
        with whole_text(part) as file, nullcontext() if self._ranks.alone else _touching(beside(part)):
            yield file

    def finish(self) -> None:
        """Put the parts together, if this is the first process, once all are there.

        Raises:
            RequestError: If another process has ended without its part.
            OSError: If the disk is full.
        """
        if self._ranks.alone or not self._ranks.first:
            return
        self._wait()
        with whole_file(self._path) as whole:
            for rank in range(self._ranks.world_size):
                with open(self._part(rank), "rb") as part:
                    shutil.copyfileobj(part, whole, 1 << 20)
        self._wait_for_the_late()
        shutil.rmtree(self._folder.parent, ignore_errors=True)

    def _wait(self) -> None:
        """Wait until all parts are there."""
        seen: dict[int, tuple[float, float]] = {}
        while missing := [rank for rank in range(self._ranks.world_size) if not self._part(rank).exists()]:
            now = time.monotonic()
            for rank in missing:
                sign = 0.0
                with suppress(OSError):
                    sign = beside(self._part(rank)).stat().st_mtime
                # Signs are compared with each other and never with a clock: hosts' clocks differ.
                if rank not in seen or seen[rank][0] != sign:
                    seen[rank] = (sign, now)
                elif now - seen[rank][1] > PATIENCE:
                    raise RequestError(
                        f"process {rank} of {self._ranks.world_size} has not finished its part of {self._path}, and nothing "
                        f"was heard of it for {PATIENCE:.0f} s; the parts that are whole are kept in {self._folder}: run the "
                        "same command again, and they are taken as they are (every host has to see that folder)"
                    )
            time.sleep(0.1)

    def _wait_for_the_late(self) -> None:
        """Wait until every process has started as often as this one: a later one would write its part again, in vain."""
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
    """Touch a file every few seconds, as a sign of life while the next line takes long."""
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
