"""How the batches of an update are shared among processes."""

from collections.abc import Sequence
from math import gcd

import numpy as np


def share_batches(batches: Sequence[np.ndarray], rank: int, world_size: int) -> list[np.ndarray]:
    """Return one process's part of the batches that make one update. Nothing is left over or taken twice.

    As far as the numbers divide, processes take whole batches, which keeps them large. If n processes share a batch, each takes
    every n-th row, so that rows are about equally long and their number differs by one at most.

    Args:
        batches: Arrays of indices.
        rank: Which of the processes this is, in [0, world_size).
        world_size: Number of processes that train together.

    Returns:
        Arrays of indices, equally many on every process; some may be empty.
    """
    groups = gcd(len(batches), world_size)
    group, member = rank % groups, rank // groups
    return [batch[member :: world_size // groups] for batch in batches[group::groups]]
