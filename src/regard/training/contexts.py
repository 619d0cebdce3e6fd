"""Contexts in which models are built and evaluated."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.errors import ConfigError


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, for a while."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


@contextmanager
def fitting_into_memory(vocabulary: str, remedy: str) -> Iterator[None]:
    """Say what to lower where a model that is built does not fit.

    Args:
        vocabulary: What it is built for, such as `a vocabulary of 5 symbols`.
        remedy: What to set, beside the sizes under `model`.

    Raises:
        ConfigError: If there is not enough memory.
    """
    try:
        yield
    except RuntimeError as error:
        if "alloc" not in str(error):
            raise
        raise ConfigError(
            f"the model does not fit into memory, with {vocabulary}; lower the sizes under model, or set {remedy}"
        ) from error
