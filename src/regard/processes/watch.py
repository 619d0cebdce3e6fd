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
"""Seconds that a process has to find out by itself that another has ended, and to say so."""


class Watch:
    """Notices when another process ends, and ends this one, even in the middle of a long computation.

    Nothing is sent on a connection between two processes before the farewell. If one of them dies, the system closes the
    connection, and the thread of the other that waits for the farewell finds out. The first process watches all, and all watch
    the first.

    Args:
        ranks: Which of the processes this is.
        group: A process group for this purpose alone.
    """

    someone_is_lost = False

    def __init__(self, ranks: Ranks, group: dist.ProcessGroup) -> None:
        self.lost = threading.Event()
        """Set when another process has ended, or has failed."""
        self._ranks, self._group = ranks, group
        self._left, self._said, self._who = False, [0] * ranks.world_size, 0
        self._heard = {peer: threading.Event() for peer in (range(1, ranks.world_size) if ranks.first else (0,))}
        for peer in self._heard:
            threading.Thread(target=self._listen, args=(peer,), daemon=True).start()

    def describe(self) -> str:
        """Say what happened."""
        return (
            f"process {self._who} of {self._ranks.world_size} has ended, and the others with it; what it said stands above or "
            "in its own log. The last checkpoint is kept: go on with `regard resume`, with as many processes as you like"
        )

    def leave(self, message: str, *, in_good_order: bool) -> bool:
        """Send the farewell.

        Args:
            message: What went wrong, if anything.
            in_good_order: Whether the others come to this too, sooner or later, and are waited for.

        Returns:
            Whether the first process has said the same.
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
