"""Collective operations of the processes of a run.

Only the first process reads and writes the run's folder, validates and prints; the others get its results. PyTorch's
DistributedDataParallel averages gradients (`training/updater.py`). The operations here use a separate gloo group, which can
wait for hours while the first process prepares data or validates; NCCL cannot.
"""

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from regard.errors import ConfigError
from regard.processes.ranks import Ranks

T = TypeVar("T")


class Team:
    """All processes of a run, as seen by one of them. A single process does not communicate.

    Args:
        ranks: Rank of this process.
        group: The process group for communication; None for a single process.
    """

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

    def by_first(self, work: Callable[[], T]) -> T:
        """Call `work` in the first process, and return its result or raise its exception in every process."""
        if self._group is None:
            return work()
        outcome: list[Any] = [None, None]
        if self.first:
            try:
                outcome[0] = work()
            except Exception as error:
                pickle.loads(pickle.dumps(error))  # an error that cannot be pickled ends this process, and thereby the others
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0, group=self._group, device=torch.device("cpu"))
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def in_turns(self, work: Callable[[], T]) -> T:
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

    def check_alike(
        self, facts: dict[str, Any], advice: str = "start all with the same command, the same files and the same versions"
    ) -> None:
        """Check that all processes have the same settings, data and versions.

        Args:
            facts: Plain data that must be equal in all processes.
            advice: What to do if they are not.

        Raises:
            ConfigError: If a fact differs between processes. All processes raise this error.
        """
        theirs = self.by_first(lambda: facts)
        wrong = next((name for name in facts if facts[name] != theirs.get(name)), None)
        says = "" if wrong is None else f"{wrong} is {facts[wrong]!r:.200} in process {self.ranks.rank}"
        if self.largest(int(wrong is not None))[0]:
            raise ConfigError(
                f"the {self.size} processes differ: {says or 'see the message of another process'}"
                f"{f', and {theirs.get(wrong)!r:.200} in process 0' if wrong else ''}; {advice}"
            )

    def align(self, model: nn.Module) -> None:
        """Copy the weights of the first process to the model in every process."""
        if self._group is not None:
            for value in model.state_dict().values():
                dist.broadcast(value, 0, group=self._group)
