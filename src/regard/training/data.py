"""From batches of indices to updates, from any position of any epoch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from regard.text.batching import Batch, BucketBatchSampler
from regard.text.encoded import EncodedCorpus
from regard.training.run import Progress


@dataclass(frozen=True)
class Update:
    """The batches of one update of the weights."""

    batches: list[Batch]
    tokens: int
    """Target words in all of them, end symbols included."""
    last: bool
    """Whether it is the last of its epoch."""

    def to(self, device: torch.device) -> "Update":
        """Move the tensors."""
        return replace(self, batches=[to_device(batch, device) for batch in self.batches])


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move a batch's tensors."""
    if device.type == "cpu":
        return batch
    moved = {
        name: value.to(device, non_blocking=True) for name, value in vars(batch).items() if isinstance(value, torch.Tensor)
    }
    return replace(batch, **moved)


class UpdateLoader:
    """Gives the updates of the epoch a run is in, from where it is: each iteration is one epoch, or what is left of it.

    The position is the run's own (`Progress`), counted when an update has been made and not when its batches have been read.
    """

    def __init__(self, corpus: EncodedCorpus, sampler: BucketBatchSampler, accumulate: int, progress: Progress) -> None:
        self._corpus, self._sampler, self._accumulate, self._progress = corpus, sampler, accumulate, progress

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
        batches = [self._corpus.batch(indices) for indices in group]
        return Update(batches, sum(int(batch.target_mask.sum()) for batch in batches), last)
