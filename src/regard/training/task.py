"""What depends on the task that is learned: data, model, loss and scores. All else of training is one for all."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.bundle import Bundle
from regard.bundle.bundle import Custom
from regard.config import RunConfig
from regard.errors import ConfigError
from regard.text.batching import BucketBatchSampler
from regard.training.machine import Machine


class Report(Protocol):
    """What became of the files that were read."""

    def render(self) -> str:
        """For the terminal."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        ...


class Corpus(Protocol):
    """Examples by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: Any) -> Any:
        """These examples as tensors: a dataclass of them."""
        ...


class Data(Protocol):
    """What a run learns from."""

    @property
    def train(self) -> Corpus: ...

    @property
    def fingerprint(self) -> str:
        """Hash of the files' bytes."""
        ...

    @property
    def report(self) -> Report: ...


class Scores(ABC):
    """What one validation found."""

    @property
    @abstractmethod
    def loss(self) -> float:
        """The mean over all dev examples."""

    @abstractmethod
    def monitored(self, name: str) -> float:
        """The figure that picks the best model, the higher the better."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data for a bundle's signature; `loss` among it."""

    @abstractmethod
    def to_row(self) -> dict[str, float]:
        """Columns of the logs."""

    @abstractmethod
    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """The figures in a line, and further lines; `first` at a run's first validation."""


class Validator(ABC):
    """Scores models on the dev examples."""

    @property
    @abstractmethod
    def num_batches(self) -> int:
        """Batches of one validation, for progress bars."""

    @abstractmethod
    def validate(self, model: Any, *, after_batch: Callable[[], None] = lambda: None) -> Scores:
        """Score a model, which is left in the mode it came in.

        Args:
            model: The model.
            after_batch: Called after each batch; what it raises ends the validation.

        Raises:
            RequestError: If the model's output is not finite.
        """


class Task(ABC):
    """What is learned.

    Args:
        config: The run, with all that preparing the data has settled.
        data: What it learns from.
        model: What learns.
        custom: What part of the model is the user's own object.
    """

    started_from: Mapping[str, Any] = MappingProxyType({})
    """The trained model that it started from, for the signature; empty if it started from random weights."""
    frozen: Sequence[nn.Parameter] = ()
    """Parameters that training does not change (`model.freeze`)."""
    unit: ClassVar[str]
    """What speed is told in: the things whose losses add up."""
    columns: ClassVar[tuple[str, ...]]
    """Of the logs, beside those that every run has."""

    @property
    def speed_column(self) -> str:
        """The logs' column of the speed."""
        return f"{self.unit.replace(' ', '_')}_per_second"

    def __init__(self, config: RunConfig, data: Data, model: nn.Module, custom: Custom) -> None:
        self.config, self.data, self.model, self.custom = config, data, model, custom

    @abstractmethod
    def sampler(self) -> BucketBatchSampler:
        """The batches of an epoch."""

    @abstractmethod
    def count(self, indices: np.ndarray) -> int:
        """How many losses a batch of these training examples sums up."""

    @abstractmethod
    def loss(self, batch: Any, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The sum to be differentiated, and the one to be reported, of a batch of update `step` (from 1) of `total_steps`."""

    @abstractmethod
    def validator(self, machine: Machine) -> Validator | None:
        """None where there are no dev examples."""

    def row(self, step: int, total_steps: int) -> dict[str, float]:
        """Columns of the logs that depend on the update alone."""
        return {}

    @abstractmethod
    def describe_scores(self, scores: dict[str, Any]) -> str:
        """What a kept model's scores say in a line."""

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning about a kept model, judged by its scores, with advice; empty if there is nothing to warn about."""
        return ""

    @abstractmethod
    def bundle(self, signature: dict[str, Any]) -> Bundle:
        """The model as it is; `signature` has its `scores`."""

    @abstractmethod
    def predictor(self, bundle: Bundle) -> Any:
        """What `fit` returns."""


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
