"""Distribution of the batches of an update over processes."""

from collections.abc import Sequence
from math import gcd

import numpy as np


def share_batches(batches: Sequence[np.ndarray], rank: int, world_size: int) -> list[np.ndarray]:
    """Return one process's part of the batches of an update; each example belongs to exactly one process.

    If possible, processes take whole batches, which keeps batches large. If n processes share a batch, each takes every n-th
    example, so that all n processes have examples of similar lengths, and their numbers of examples differ by at most one.

    Args:
        batches: The batches of the update, as arrays of indices of examples.
        rank: Rank of this process, from 0 to `world_size` − 1.
        world_size: Number of processes that train together.

    Returns:
        Arrays of indices, the same number in every process; some may be empty.
    """
    groups = gcd(len(batches), world_size)
    group, member = rank % groups, rank // groups
    return [batch[member :: world_size // groups] for batch in batches[group::groups]]
