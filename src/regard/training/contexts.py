"""Contexts in which models are built, trained and evaluated."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.errors import ConfigError, TrainingError, out_of_memory


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch a model to evaluation mode without gradients while the context is open."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


@contextmanager
def fitting_into_memory(vocabulary: str, remedy: str) -> Iterator[None]:
    """Raise an error that names settings to lower if building a model needs too much memory.

    Args:
        vocabulary: Text with the size of the vocabulary, such as `a vocabulary of 5 symbols`.
        remedy: Names of the settings that limit the vocabulary. The error names these and the sizes under `model`.

    Raises:
        ConfigError: If there is not enough memory.
    """
    try:
        yield
    except RuntimeError as error:
        if "alloc" not in str(error):
            raise
        raise ConfigError(
            f"the model does not fit into memory, with {vocabulary}; lower the sizes under model, or choose a smaller "
            f"vocabulary with {remedy}"
        ) from error


@contextmanager
def explaining_memory() -> Iterator[None]:
    """Raise an error that names settings to lower if memory is short in an unsplit computation, such as validation.

    Raises:
        TrainingError: If there is not enough memory.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise TrainingError(
            "there is not enough memory; lower training.batch_tokens or the sizes under model, and start a new run. If it ran "
            "out while dev pairs were translated, lower decoding.batch_tokens and resume. The last checkpoint is kept"
        ) from error
