"""The rank of this process among several, which their launcher (torchrun, or SLURM's srun) sets in the environment."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from regard.errors import ConfigError


@dataclass(frozen=True)
class Ranks:
    """One of several processes that work together."""

    rank: int = 0
    """In [0, world_size)."""
    world_size: int = 1
    local_rank: int = 0
    """Among those on this host, in [0, local_size)."""
    local_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that reads, writes and prints for all."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.world_size == 1

    def share(self, count: int) -> tuple[int, int]:
        """Return the range [first, last) of `count` items that belongs to this process; shares differ by at most one."""
        return count * self.rank // self.world_size, count * (self.rank + 1) // self.world_size


def read_ranks(environment: Mapping[str, str] = os.environ) -> Ranks:
    """Read what the launcher set: WORLD_SIZE, RANK, LOCAL_RANK and LOCAL_WORLD_SIZE, or the variables of a step of SLURM.

    An allocation of SLURM without `srun` is one process, and so is an interactive shell in one.

    Raises:
        ConfigError: If the variables contradict each other.
    """
    if "WORLD_SIZE" in environment:
        world_size, rank = read_number(environment, "WORLD_SIZE", "1"), read_number(environment, "RANK", "")
        local_rank, local_size = read_number(environment, "LOCAL_RANK", "0"), read_number(environment, "LOCAL_WORLD_SIZE", "1")
    elif "SLURM_STEP_ID" in environment and environment.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        world_size, rank = read_number(environment, "SLURM_NTASKS", "1"), read_number(environment, "SLURM_PROCID", "0")
        local_rank, local_size = read_number(environment, "SLURM_LOCALID", "0"), _tasks_here(environment, world_size)
    else:
        return Ranks()
    local_size = max(local_size, local_rank + 1)
    if not 0 <= rank < world_size:
        raise ConfigError(f"the environment says that this is process {rank} of {world_size}; expected 0 <= RANK < WORLD_SIZE")
    return Ranks(rank, world_size, local_rank, local_size)


def own_name(environment: Mapping[str, str] = os.environ) -> str:
    """Return `process 1 of 4: ` to put before a message; nothing in the first process or in a contradictory environment."""
    try:
        ranks = read_ranks(environment)
    except ConfigError:
        return ""
    return "" if ranks.first else f"process {ranks.rank} of {ranks.world_size}: "


def _tasks_here(environment: Mapping[str, str], tasks: int) -> int:
    """Return the number of tasks of a step of SLURM on this node; "2(x3),1" is 2 on each of three nodes and 1 on a fourth."""
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        found = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get(name, ""))
        runs = [(int(count), int(times or 1)) for count, times in found]
        if sum(count * times for count, times in runs) != tasks:
            continue  # not set, or the allocation's, of which the step is a part
        counts = [count for count, times in runs for _ in range(times)]
        if (node := read_number(environment, "SLURM_NODEID", "0")) < len(counts):
            return counts[node]
    if "SLURM_NTASKS_PER_NODE" in environment:
        return read_number(environment, "SLURM_NTASKS_PER_NODE", "")
    return -(-tasks // max(1, read_number(environment, "SLURM_NNODES", "1")))


def read_number(environment: Mapping[str, str], name: str, default: str) -> int:
    """Return a whole number that the launcher set.

    Raises:
        ConfigError: If it is missing or not a whole number.
    """
    text = environment.get(name, default)
    if not text.isdecimal():
        what = f"is '{text}'" if text else "is not set"
        launched = "WORLD_SIZE" if "WORLD_SIZE" in environment else "SLURM_STEP_ID"
        raise ConfigError(
            f"{launched} is set and {name} {what}; expected a whole number: start the processes with torchrun or srun"
        )
    return int(text)
