"""Batches cut into pieces, for where memory does not suffice for a whole one: the gradients of the pieces add up to its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.errors import TrainingError


def cut(batch: Any, pieces: int) -> list[Any]:
    """The examples of a batch, in `pieces` batches or as many as there are examples.

    Args:
        batch: A dataclass of tensors, the examples along the first axis.
        pieces: In how many, from 1.
    """
    if pieces == 1:
        return [batch]
    parts = {name: value.tensor_split(pieces) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return [
        replace(batch, **{name: tensors[number] for name, tensors in parts.items()})
        for number in range(min(pieces, len(batch.index)))
    ]


def check_cuttable(batches: Sequence[Any], pieces: int, error: BaseException, *, alone: bool) -> None:
    """See that twice as many pieces are smaller ones, and that no other process waits for a share of this one's.

    Raises:
        TrainingError: If not.
    """
    if not alone:
        raise TrainingError(
            "memory does not suffice for a batch; lower training.batch_tokens, raise training.accumulate by the same factor, "
            "and resume. The last checkpoint is kept"
        ) from error
    if pieces >= max(len(batch.index) for batch in batches):
        raise TrainingError(
            "memory does not suffice for a single example; lower data.max_tokens or the sizes under model, or train on a "
            "device with more memory. The last checkpoint is kept"
        ) from error
