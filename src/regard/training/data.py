"""From batches of indices to updates, from any position of any epoch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch

from regard.text.batching import BucketBatchSampler
from regard.training.run import Progress
from regard.training.task import Task


@dataclass(frozen=True)
class Update:
    """The batches of one update of the weights."""

    batches: list[Any]
    count: int
    """How many losses they sum up."""
    last: bool
    """Whether it is the last of its epoch."""

    def to(self, device: torch.device) -> "Update":
        """Move the tensors."""
        return replace(self, batches=[to_device(batch, device) for batch in self.batches])


Batch = TypeVar("Batch")


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move a batch's tensors."""
    if device.type == "cpu":
        return batch
    moved = {
        name: value.to(device, non_blocking=True) for name, value in vars(batch).items() if isinstance(value, torch.Tensor)
    }
    return replace(batch, **moved)  # type: ignore[type-var]


class UpdateLoader:
    """Gives the updates of the epoch a run is in, from where it is: each iteration is one epoch, or what is left of it.

    The position is the run's own (`Progress`), counted when an update has been made and not when its batches have been read.
    """

    def __init__(self, task: Task, sampler: BucketBatchSampler, progress: Progress) -> None:
        self._task, self._sampler, self._progress = task, sampler, progress
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
        batches = [self._task.data.train.batch(indices) for indices in group]
        return Update(batches, sum(self._task.count(batch) for batch in batches), last)
