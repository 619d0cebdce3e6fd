"""The processes of a run, which torchrun has started: their connection, and their collective operations.

Only the first process reads and writes the run's folder, validates and prints; the others get its results. PyTorch's
DistributedDataParallel averages gradients (`training/updater.py`). The operations here use a separate gloo group, which can
wait for hours while the first process prepares data or validates; NCCL cannot. If a process dies, torchrun ends the others on
its host, and the next operation fails in those on other hosts.
"""

import atexit
import gc
import io
import os
import socket
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from regard import errors
from regard.errors import ConfigError, RegardError, TrainingError, out_of_memory
from regard.processes.ranks import Ranks, read_ranks

T = TypeVar("T")

# Maximum time that a process waits for another one that is alive, and for another one's last message after an error.
_PATIENCE, _GRACE = timedelta(days=30), timedelta(seconds=2)


class Team:
    """All processes of a run, as seen by one of them. A single process has no process group, and does not communicate."""

    def __init__(self, ranks: Ranks = Ranks(), group: dist.ProcessGroup | None = None) -> None:  # noqa: B008 (frozen)
        self.ranks, self._group = ranks, group

    @property
    def first(self) -> bool:
        """Whether this is the first process, which reads, writes and prints for all."""
        return self.ranks.first

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.ranks.world_size

    def broadcast(self, work: Callable[[], T]) -> T:
        """Call `work` in the first process, and return its result or raise its error in every process.

        The result consists of numbers, texts, None and tensors, in lists, tuples and dictionaries. The others load it with
        `weights_only`, so that whoever can send to a process cannot run code in it. An error that is not a `RegardError` is a
        RuntimeError in the other processes.
        """
        if self._group is None:
            return work()
        if not self.first:
            failure, result = torch.load(io.BytesIO(self._broadcast_bytes(b"")), weights_only=True)
            if failure:
                name, message, exit_code = failure
                kind = getattr(errors, name, None)
                error: Any = kind(message) if isinstance(kind, type) else RuntimeError(message)
                error.exit_code = exit_code
                raise error
            return result
        buffer = io.BytesIO()
        try:
            result = work()
            torch.save((None, with_plain_numbers(result)), buffer)
        except Exception as error:
            # Errors are sent as names and texts, because unpickling one could run code; the others wait for this message.
            message = "out of memory" if out_of_memory(error) else str(error)
            torch.save(((type(error).__name__, message, getattr(error, "exit_code", 1)), None), buffer := io.BytesIO())
            self._broadcast_bytes(buffer.getvalue())
            raise
        self._broadcast_bytes(buffer.getvalue())
        return result

    def _broadcast_bytes(self, data: bytes) -> bytes:
        """Return the first process's bytes in every process."""
        size = torch.tensor([len(data)])
        dist.broadcast(size, 0, group=self._group)
        buffer = torch.frombuffer(bytearray(data if self.first else int(size)), dtype=torch.uint8)
        dist.broadcast(buffer, 0, group=self._group)
        return buffer.numpy().tobytes()

    def main_process_first(self, work: Callable[[], T]) -> T:
        """Call `work` in process 0, then in one process of each other host, then in all others, and return its result.

        In this order, `work` can create files on each host that the later processes only read.
        """
        if self._group is None:
            return work()
        mine = 0 if self.first else 1 if self.ranks.local_rank == 0 else 2
        for turn in range(3):
            if turn == mine:
                made = work()
            dist.barrier(self._group)
        return made

    def total(self, value: float) -> float:
        """Return the sum of a value over all processes."""
        return self._reduce([value], dist.ReduceOp.SUM)[0]

    def largest(self, *values: int) -> list[int]:
        """Return the maximum of each value over all processes."""
        return [int(value) for value in self._reduce(list(values), dist.ReduceOp.MAX)]

    def _reduce(self, values: list[Any], how: Any) -> list[float]:
        if self._group is None:
            return values
        joint = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(joint, how, group=self._group)
        return joint.tolist()

    def check_equal(
        self, facts: dict[str, Any], advice: str = "start all with the same command, the same files and the same versions"
    ) -> None:
        """Raise an error with the advice, in all processes, if a fact (plain data by name) differs between processes."""
        theirs = self.broadcast(lambda: facts)
        wrong = next((name for name in facts if facts[name] != theirs[name]), None)
        if self.largest(int(wrong is not None))[0]:
            found = "see the message of another process"
            if wrong is not None:
                found = (
                    f"{wrong} is {facts[wrong]!r:.200} in process {self.ranks.rank}, and {theirs[wrong]!r:.200} in process 0"
                )
            raise ConfigError(f"the {self.size} processes differ: {found}; {advice}")

    def copy_weights(self, model: nn.Module) -> None:
        """Copy the weights of the first process to the model in every process."""
        if self._group is not None:
            for value in model.state_dict().values():
                dist.broadcast(value, 0, group=self._group)

    def tell(self, error: RegardError) -> None:
        """Set `error.reported` if the first process ends with the same error, so that only one process prints it."""
        code = torch.tensor([zlib.crc32(str(error).encode())])
        own = int(code)
        with suppress(RuntimeError):  # the first process is busy with something else, or has ended
            dist.broadcast(code, 0, group=self._group, async_op=True).wait(_GRACE)
            error.reported = not self.first and int(code) == own


def with_plain_numbers(value: Any) -> Any:
    """Return lists, tuples and dictionaries with Python's numbers in place of NumPy's, which `weights_only` does not load."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:  # subclasses, such as the weights of a model, may have attributes that must be kept
        return {with_plain_numbers(name): with_plain_numbers(item) for name, item in value.items()}
    return type(value)(map(with_plain_numbers, value)) if type(value) in (list, tuple) else value


@contextmanager
def joined() -> Iterator[Team]:
    """Yield the team of this run, connected to the other processes, if torchrun has started some; disconnect at the end.

    Raises:
        ConfigError: If the environment is invalid, or the other processes cannot be reached.
        TrainingError: If another process ended.
    """
    ranks = read_ranks()
    if ranks.alone:
        _check_launcher()
        yield Team(ranks)
        return
    _connect(ranks)
    control = dist.new_group(backend="gloo", timeout=_PATIENCE)
    team = Team(ranks, control)
    try:
        yield team
        dist.barrier(control)  # a process that ends earlier would close connections over which others still receive
    except BaseException as error:
        atexit.unregister(disconnect)  # it would wait for processes that have ended
        if isinstance(error, RegardError):
            team.tell(error)
        elif isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error)):
            raise TrainingError(
                "another process of the run has ended; its message is above or in its own log. The last checkpoint is kept: "
                "continue with `regard resume`, with any number of processes"
            ) from error
        raise
    dist.destroy_process_group(control)


def _check_launcher() -> None:
    """Raise an error if SLURM's srun has started several processes, which would each train a model of their own."""
    tasks, name = os.environ.get("SLURM_NTASKS", "1"), os.environ.get("SLURM_JOB_NAME")
    if "SLURM_STEP_ID" in os.environ and tasks != "1" and name not in ("bash", "interactive"):
        raise ConfigError(
            f"srun has started {tasks} processes without torchrun; start one task on each node, with "
            "`srun --ntasks-per-node 1 torchrun …` (the page on several processes has a script)"
        )


def _connect(ranks: Ranks) -> None:
    """Create PyTorch's default process group, which exists until the process ends."""
    if dist.is_initialized():
        return
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if ranks.local_size == ranks.world_size and loopback:  # other hosts cannot connect then
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    except (RuntimeError, ValueError, OSError) as error:
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise ConfigError(
            f"process {ranks.rank} of {ranks.world_size} cannot reach the others at {place} ({str(error).splitlines()[0]}); "
            "check that the hosts know each other's names, and that the port is free and open"
        ) from error
    atexit.register(disconnect)


def disconnect() -> None:
    """Close PyTorch's default process group at the end of the process."""
    if dist.is_initialized():
        dist.destroy_process_group()
        # `destroy_process_group` only drops a reference to the group. gloo's threads end with the last reference, which
        # reference cycles of the wrapped model may hold, so these are collected now. A thread that releases a tensor while
        # Python shuts down would abort the process (PyTorch issue 190489).
        gc.collect()
