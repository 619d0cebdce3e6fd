"""Collectives: what the processes of a run do together.

The first process alone reads and writes the run's folder, validates and prints; the others get its results. Gradients are
averaged elsewhere, by PyTorch's DistributedDataParallel (`training/updater.py`). Everything here uses a gloo group of its
own: it may wait for hours while the first process prepares data or validates, which NCCL may not.
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
    """One process's view of all processes of a run. A process that is alone communicates with nobody.

    Args:
        ranks: Which of the processes this is.
        group: The process group they communicate over; None if there is one process.
    """

    def __init__(self, ranks: Ranks = Ranks(), group: dist.ProcessGroup | None = None) -> None:  # noqa: B008 (frozen)
        self.ranks, self._group = ranks, group

    @property
    def first(self) -> bool:
        """Whether this is the process that reads, writes and prints for all."""
        return self.ranks.first

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.ranks.world_size

    def by_first(self, work: Callable[[], T]) -> T:
        """Let the first process call `work`, and return its result, or raise its exception, in every process."""
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
        """Call `work`, which leaves files behind: in the first process, then in the first of every other host, then in all."""
        if self._group is None:
            return work()
        mine = 0 if self.first else 1 if self.ranks.local_rank == 0 else 2
        for turn in range(3):
            if turn == mine:
                made = work()
            dist.barrier(self._group)
        return made

    def total(self, value: float) -> float:
        """Return the sum over all processes."""
        return self._reduce([value], dist.ReduceOp.SUM)[0]

    def largest(self, *values: int) -> list[int]:
        """Return the largest of each value over all processes."""
        return [int(value) for value in self._reduce(list(values), dist.ReduceOp.MAX)]

    def _reduce(self, values: list[Any], how: Any) -> list[float]:
        if self._group is None:
            return values
        joint = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(joint, how, group=self._group)
        return joint.tolist()

    def check_alike(self, facts: dict[str, Any]) -> None:
        """Check that all processes are about to do the same.

        Args:
            facts: Plain data that must be equal in all processes.

        Raises:
            ConfigError: If something differs; all processes raise it.
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
