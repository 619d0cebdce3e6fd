"""Updates of the weights, each from one or more batches of indices; iteration can start at any batch of any epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import gcd
from typing import Any

import numpy as np

from regard.training.run import Run


@dataclass(frozen=True)
class Update:
    """The batches of one update of the weights, or one process's part of them."""

    batches: list[Any]
    weights: list[float]
    """Factor of each batch's loss: 1, or 0 if the batch has no data for this process, which then only exchanges gradients."""
    count: int
    """Number of target tokens or texts (see `Trainable.count`) in the batches of all processes; it divides the summed loss."""
    joint: int
    """Number of the sampler's batches in this update, for all processes together."""
    last: bool
    """Whether this is the last update of its epoch."""


def load_updates(run: Run) -> Iterator[Update]:
    """Yield the updates of the current epoch, from the position of the run, which counts the batches of completed updates."""
    task, ranks, accumulate = run.task, run.team.ranks, run.config.training.accumulate
    run.sampler.resume_at(run.progress.epoch, run.progress.batch)
    batches = iter(run.sampler)
    group = list(islice(batches, accumulate))
    while group:
        following = list(islice(batches, accumulate))
        parts = share_batches(group, ranks.rank, ranks.world_size)
        yield Update(
            # A process without data computes a gradient with weight 0, because the other processes wait for one.
            batches=[task.batch(part if len(part) else group[0][:1]) for part in parts],
            weights=[1.0 if len(part) else 0.0 for part in parts],
            count=sum(task.count(indices) for indices in group),
            joint=len(group),
            last=not following,
        )
        group = following


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
