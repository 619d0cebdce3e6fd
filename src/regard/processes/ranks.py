"""The rank of this process among several, as set in the environment by their launcher (torchrun, or SLURM's srun)."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from regard.errors import ConfigError


@dataclass(frozen=True)
class Ranks:
    """The rank of this process among several that work together; by default, it is the only process."""

    rank: int = 0
    """Rank of this process, from 0 to `world_size` − 1."""
    world_size: int = 1
    local_rank: int = 0
    """Rank among the processes on this host, from 0 to `local_size` − 1."""
    local_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the first process, which reads, writes and prints for all."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Whether there is only one process."""
        return self.world_size == 1


def read_ranks(environment: Mapping[str, str] = os.environ) -> Ranks:
    """Read this process's rank from the launcher's variables: WORLD_SIZE, RANK and so on, or those of a SLURM step.

    Without these variables, there is a single process. A SLURM allocation without `srun`, or an interactive shell in it, also
    counts as a single process.

    Raises:
        ConfigError: If a variable is missing or not a whole number, or the variables contradict each other.
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
    """Return a prefix for messages, such as `process 1 of 4: `; empty in the first process or in an invalid environment."""
    try:
        ranks = read_ranks(environment)
    except ConfigError:
        return ""
    return "" if ranks.first else f"process {ranks.rank} of {ranks.world_size}: "


def _tasks_here(environment: Mapping[str, str], tasks: int) -> int:
    """Return the number of tasks of a SLURM step on this node; "2(x3),1" means 2 on each of three nodes and 1 on a fourth."""
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        found = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get(name, ""))
        runs = [(int(count), int(times or 1)) for count, times in found]
        if sum(count * times for count, times in runs) != tasks:
            continue  # not set, or set for the whole allocation
        counts = [count for count, times in runs for _ in range(times)]
        if (node := read_number(environment, "SLURM_NODEID", "0")) < len(counts):
            return counts[node]
    if "SLURM_NTASKS_PER_NODE" in environment:
        return read_number(environment, "SLURM_NTASKS_PER_NODE", "")
    return -(-tasks // max(1, read_number(environment, "SLURM_NNODES", "1")))


def read_number(environment: Mapping[str, str], name: str, default: str) -> int:
    """Return a whole number from a variable that the launcher set.

    Raises:
        ConfigError: If the variable is missing and `default` is empty, or it is not a whole number.
    """
    text = environment.get(name, default)
    if not text.isdecimal():
        what = f"is '{text}'" if text else "is not set"
        launched = "WORLD_SIZE" if "WORLD_SIZE" in environment else "SLURM_STEP_ID"
        raise ConfigError(
            f"{launched} is set and {name} {what}; expected a whole number: start the processes with torchrun or srun"
        )
    return int(text)
