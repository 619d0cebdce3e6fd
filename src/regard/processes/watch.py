"""Failure detection: if one process of a run dies, the others end within seconds."""

import os
import threading
import time
import zlib

import torch
import torch.distributed as dist

from regard import terminal
from regard.errors import TrainingError
from regard.processes.ranks import Ranks

GRACE = 3.0
"""Seconds in which a process can notice by itself that another one has ended; after them, the watch ends this process."""


class Watch:
    """Threads that end this process if another process ends, even during a long computation.

    Two processes send nothing over their connection until a final message. If one of them dies, the system closes the
    connection, and the thread of the other, which waits for that message, notices it. The first process watches all others, and
    all others watch the first.

    Args:
        ranks: Rank of this process.
        group: A process group for this purpose only.
    """

    someone_is_lost = False

    def __init__(self, ranks: Ranks, group: dist.ProcessGroup) -> None:
        self.lost = threading.Event()
        """Set when another process has ended or failed."""
        self._ranks, self._group = ranks, group
        self._left, self._said, self._who = False, [0] * ranks.world_size, 0
        self._heard = {peer: threading.Event() for peer in (range(1, ranks.world_size) if ranks.first else (0,))}
        for peer in self._heard:
            threading.Thread(target=self._listen, args=(peer,), daemon=True).start()

    def describe(self) -> str:
        """Return a message that names the process that has ended, and says how to continue the run."""
        return (
            f"process {self._who} of {self._ranks.world_size} has ended, so the others ended too; its message is above or in "
            "its own log. The last checkpoint is kept: continue with `regard resume`, with any number of processes"
        )

    def leave(self, message: str, *, in_good_order: bool) -> bool:
        """Send the final message to the watched processes, and wait for theirs.

        Args:
            message: Error message; empty if there is no error.
            in_good_order: Whether the other processes will also call this method, so that this one waits as long as they need.

        Returns:
            Whether the first process has reported the same error.
        """
        code = zlib.crc32(message.encode()) if message else 0
        self._left = True
        Watch.someone_is_lost |= not in_good_order
        try:
            for peer in self._heard:
                dist.send(torch.tensor([code, int(in_good_order)]), dst=peer, group=self._group)
        except RuntimeError:
            return False
        heard = [event.wait(None if in_good_order else GRACE / 2) for event in self._heard.values()]
        return all(heard) and self._said[0] == code

    def _listen(self, peer: int) -> None:
        word = torch.zeros(2, dtype=torch.int64)
        try:
            dist.recv(word, src=peer, group=self._group)
            self._said[peer] = int(word[0])
            self._heard[peer].set()
            if word[1]:
                return
        except RuntimeError:
            self._heard[peer].set()
        self._who, Watch.someone_is_lost = peer, True
        self.lost.set()
        time.sleep(GRACE)
        if not self._left:
            terminal.write_now(f"\nregard: {self.describe()}\n")
            os._exit(TrainingError.exit_code)
