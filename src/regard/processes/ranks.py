"""The rank of this process among several, as torchrun sets it in the environment."""

import os
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
    """Read this process's rank from torchrun's variables; without WORLD_SIZE, there is a single process.

    Raises:
        ConfigError: If a variable is missing or not a whole number, or the variables contradict each other.
    """
    if environment.get("WORLD_SIZE", "1") == "1":
        return Ranks()
    found = {name: environment.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    for name, text in found.items():
        if not text.isdecimal():
            raise ConfigError(
                f"WORLD_SIZE is set and {name} {f'is {text!r}' if text else 'is not set'}; expected a whole number: start the "
                "processes with torchrun"
            )
    ranks = Ranks(*map(int, found.values()))
    if not (ranks.rank < ranks.world_size and ranks.local_rank < ranks.local_size):
        raise ConfigError(
            f"the environment says that this is process {ranks.rank} of {ranks.world_size}, and {ranks.local_rank} of "
            f"{ranks.local_size} on this host; start the processes with torchrun"
        )
    return ranks


def own_name(environment: Mapping[str, str] = os.environ) -> str:
    """Return a prefix for messages, such as `process 1 of 4: `; empty in the first process or in an invalid environment."""
    try:
        ranks = read_ranks(environment)
    except ConfigError:
        return ""
    return "" if ranks.first else f"process {ranks.rank} of {ranks.world_size}: "
