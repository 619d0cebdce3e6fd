"""Updates of the weights, each from one or more batches of indices; iteration can start at any batch of any epoch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch

from regard.processes.ranks import Ranks
from regard.processes.sharing import share_batches
from regard.task import Trainable
from regard.text.batching import BucketBatchSampler
from regard.training.run import Progress


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


Batch = TypeVar("Batch")


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the tensors of a batch to a device."""
    if device.type == "cpu":
        return batch
    moved = {
        name: value.to(device, non_blocking=True) for name, value in vars(batch).items() if isinstance(value, torch.Tensor)
    }
    return replace(batch, **moved)  # type: ignore[type-var]


class UpdateLoader:
    """Iterable of the updates of the current epoch; each iteration is one epoch, or the rest of it.

    Iteration starts at the position of the run (`Progress`), which counts the batches of completed updates.
    """

    def __init__(self, task: Trainable, sampler: BucketBatchSampler, progress: Progress, ranks: Ranks = Ranks()) -> None:  # noqa: B008 (frozen)
        """Store the data and the position of a process.

        Args:
            task: The task with the data.
            sampler: The batches of all processes together.
            progress: Progress of the run.
            ranks: Rank of this process.
        """
        self._task, self._sampler, self._progress, self._ranks = task, sampler, progress, ranks
        self._accumulate = task.config.training.accumulate

    def __iter__(self) -> Iterator[Update]:
        self._sampler.resume_at(self._progress.epoch, self._progress.batch)
        group: list[np.ndarray] = []
        for indices in self._sampler:
            if len(group) == self._accumulate:
                yield self._update(group, last=False)
                group = []
            group.append(indices)
        if group:
            yield self._update(group, last=True)

    def _update(self, group: list[np.ndarray], *, last: bool) -> Update:
        parts = share_batches(group, self._ranks.rank, self._ranks.world_size)
        # A process without data computes a gradient with weight 0, because the other processes wait for one.
        batches = [self._task.batch(part if len(part) else group[0][:1]) for part in parts]
        weights = [1.0 if len(part) else 0.0 for part in parts]
        return Update(batches, weights, sum(self._task.count(indices) for indices in group), len(group), last)
