"""Split batches into microbatches that fit into memory; their gradients add up to the gradient of the whole batch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.errors import TrainingError


def split_batch(batch: Any, count: int) -> list[Any]:
    """Split a batch into `count` microbatches, or into one for each example if there are fewer examples.

    Args:
        batch: A dataclass of tensors, with the examples along the first axis.
        count: Number of microbatches, 1 or more.
    """
    if count == 1:
        return [batch]
    parts = {name: value.tensor_split(count) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return [
        replace(batch, **{name: tensors[number] for name, tensors in parts.items()})
        for number in range(min(count, len(batch.index)))
    ]


def check_splittable(batches: Sequence[Any], count: int, error: BaseException, *, alone: bool) -> None:
    """Check that batches can be split further; only a run with a single process can split them.

    Raises:
        TrainingError: If the batches cannot be split further, or there are several processes.
    """
    if not alone:
        raise TrainingError(
            "there is not enough memory for a batch; lower training.batch_tokens, raise training.accumulate by the same "
            "factor, and start a new run. The last checkpoint is kept"
        ) from error
    if count >= max(len(batch.index) for batch in batches):
        raise TrainingError(
            "there is not enough memory for a single example; lower data.max_tokens or the sizes under model, or train on a "
            "device with more memory. The last checkpoint is kept"
        ) from error
