"""The processes that train one model together, and what they have to agree upon.

Gradients are averaged by PyTorch's DistributedDataParallel (`training/updater.py`). All else goes over a group of gloo of its
own: it may wait for hours while the first process prepares data or validates, which NCCL may not. The first process alone reads
and writes the run's folder, validates and speaks; the others get what it found.
"""

import atexit
import gc
import os
import pickle
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from regard.errors import ConfigError, Interrupted, RegardError, TrainingError
from regard.processes.ranks import Ranks, find_meeting_point, read_ranks

T = TypeVar("T")

_PATIENCE = timedelta(days=30)
"""How long a process waits for another that is alive."""
_GRACE = 3.0
"""Seconds that a process has to find out by itself that another has ended, and to say so."""


class Team:
    """One process's view of all of them; of one process alone, without anything said."""

    def __init__(self, ranks: Ranks = Ranks(), group: dist.ProcessGroup | None = None) -> None:  # noqa: B008 (frozen)
        """Join a team.

        Args:
            ranks: Which of the processes this is.
            group: What they talk over; None where there is one alone.
        """
        self.ranks, self._group = ranks, group

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks for all."""
        return self.ranks.first

    @property
    def size(self) -> int:
        """How many processes there are."""
        return self.ranks.world_size

    def by_first(self, work: Callable[[], T]) -> T:
        """Let the first process do something, and give every process what came of it, or raise what it raised."""
        if self._group is None:
            return work()
        outcome: list[Any] = [None, None]
        if self.first:
            try:
                outcome[0] = work()
            except Exception as error:
                pickle.loads(pickle.dumps(error))  # what cannot be sent ends the others by ending this process
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0, group=self._group, device=torch.device("cpu"))
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def in_turns(self, work: Callable[[], T]) -> T:
        """Do something that leaves files behind: the first process, then the first of every other host, then all."""
        if self._group is None:
            return work()
        mine = 0 if self.first else 1 if self.ranks.local_rank == 0 else 2
        for turn in range(3):
            if turn == mine:
                made = work()
            dist.barrier(self._group)
        return made

    def total(self, value: float) -> float:
        """The sum over all processes."""
        return self._reduce([value], dist.ReduceOp.SUM)[0]

    def largest(self, *values: int) -> list[int]:
        """The largest of each value over all processes."""
        return [int(value) for value in self._reduce(list(values), dist.ReduceOp.MAX)]

    def _reduce(self, values: list[Any], how: Any) -> list[float]:
        if self._group is None:
            return values
        joint = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(joint, how, group=self._group)
        return joint.tolist()

    def check_alike(self, facts: dict[str, Any]) -> None:
        """See that all processes are about to do the same.

        Args:
            facts: What must not differ, as plain data.

        Raises:
            ConfigError: If something does; all processes raise it.
        """
        theirs = self.by_first(lambda: facts)
        wrong = next((name for name in facts if facts[name] != theirs.get(name)), None)
        says = "" if wrong is None else f"{wrong} is {facts[wrong]!r:.200} in process {self.ranks.rank}"
        if self.largest(int(wrong is not None))[0]:
            raise ConfigError(
                f"the {self.size} processes are not about to do the same: {says or 'see what another says'}"
                f"{f', and {theirs.get(wrong)!r:.200} in process 0' if wrong else ''}; start all with the same command, the "
                "same files and the same versions"
            )

    def align(self, model: nn.Module) -> None:
        """Give a model the first process's weights."""
        if self._group is not None:
            for value in model.state_dict().values():
                dist.broadcast(value, 0, group=self._group)


@contextmanager
def joined() -> Iterator[Team]:
    """Find the other processes of this run, if the environment names some, and leave them in good order.

    Where one ends without a word, by whatever means, the others end within seconds.

    Raises:
        ConfigError: If the environment contradicts itself, or the others cannot be reached.
        TrainingError: If another process ended.
    """
    ranks = read_ranks()
    if ranks.alone:
        yield Team(ranks)
        return
    _connect(ranks)
    control, watched = (dist.new_group(backend="gloo", timeout=_PATIENCE) for _ in range(2))
    watch = _Watch(ranks, watched)
    try:
        yield Team(ranks, control)
    except RegardError as error:
        error.told = watch.leave(str(error), in_good_order=isinstance(error, Interrupted)) and not ranks.first
        raise
    except RuntimeError as error:
        if watch.lost.wait(_GRACE / 2):
            raise TrainingError(watch.describe()) from error
        raise
    watch.leave("", in_good_order=True)
    for group in (control, watched):
        dist.destroy_process_group(group)


def _connect(ranks: Ranks) -> None:
    """Make PyTorch's default group, which lasts as long as the process."""
    if "WORLD_SIZE" in os.environ and "LOCAL_RANK" not in os.environ:
        raise ConfigError(
            f"the environment says that this is process {ranks.rank} of {ranks.world_size}, but not which one on its "
            "host; start it with torchrun or srun, which set LOCAL_RANK and LOCAL_WORLD_SIZE"
        )
    if dist.is_initialized():
        return
    host, port = find_meeting_point()
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = host, str(port)
    try:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, rank=ranks.rank, world_size=ranks.world_size)
    except (RuntimeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError(
            f"process {ranks.rank} of {ranks.world_size} cannot reach the others at {host}:{port} ({why}); is "
            "every host's name known to the others, and the port free and open?"
        ) from error
    atexit.register(_disconnect)


def _disconnect() -> None:
    # After an error it would wait for processes that are gone.
    if dist.is_initialized() and not _Watch.someone_is_lost:
        dist.destroy_process_group()
        # That drops references only, and gloo's threads go with the last one, which the wrapped model's cycles may hold: a
        # thread that lets go of a tensor while Python shuts down aborts the process (PyTorch's issue 190489).
        gc.collect()


class _Watch:
    """Notices when another process ends: a connection that nothing is said on until the end is closed by its end.

    The first process watches all, and all watch the first. Whoever is in the middle of something, however long, is ended.
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
        """What happened."""
        return (
            f"process {self._who} of {self._ranks.world_size} has ended, and the others with it; what it said stands above or "
            "in its own log. The last checkpoint is kept: go on with `regard resume`, with as many processes as you like"
        )

    def leave(self, message: str, *, in_good_order: bool) -> bool:
        """Say farewell.

        Args:
            message: What went wrong, if anything.
            in_good_order: Whether the others come to this too, sooner or later, and are waited for.

        Returns:
            Whether the first process has said the same.
        """
        code = zlib.crc32(message.encode()) if message else 0
        self._left = True
        _Watch.someone_is_lost |= not in_good_order
        try:
            for peer in self._heard:
                dist.send(torch.tensor([code, int(in_good_order)]), dst=peer, group=self._group)
        except RuntimeError:
            return False
        heard = [event.wait(None if in_good_order else _GRACE / 2) for event in self._heard.values()]
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
        self._who, _Watch.someone_is_lost = peer, True
        self.lost.set()
        time.sleep(_GRACE)
        if not self._left:
            # Straight to the descriptor: whatever prints may be in the middle of printing.
            show = b"\x1b[?25h" if sys.stderr.isatty() else b""  # progress bars had hidden the cursor
            os.write(2, show + f"\nregard: {self.describe()}\n".encode())
            os._exit(TrainingError.exit_code)
