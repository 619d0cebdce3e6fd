"""The parts of a task that training uses: data, model, loss, validation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from regard.config.run import RunConfig
from regard.task.bundle import BundleT, Custom, ModelT

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float
    from torch import Tensor, nn

    from regard.machine import Machine
    from regard.text.batching import BucketBatchSampler

BatchT = TypeVar("BatchT")
ConfigT = TypeVar("ConfigT", bound=RunConfig)
PartsT = TypeVar("PartsT")
PartsT_co = TypeVar("PartsT_co", covariant=True)
BatchT_co = TypeVar("BatchT_co", covariant=True)


class Report(Protocol):
    """Report on the files that were read: what was kept and what was skipped."""

    def render(self) -> str:
        """Return the text for a terminal."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        ...


class Corpus(Protocol[BatchT_co]):
    """Examples by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray) -> BatchT_co:
        """Return examples as a dataclass of tensors, whose first axis is the batch."""
        ...


class Data(Protocol[BatchT_co]):
    """Prepared data of a run."""

    @property
    def train(self) -> Corpus[BatchT_co]: ...

    @property
    def fingerprint(self) -> str:
        """Hash of the files' bytes."""
        ...

    @property
    def report(self) -> Report: ...


class Scores(ABC):
    """Results of one validation."""

    @property
    @abstractmethod
    def loss(self) -> float:
        """Mean loss over all dev examples."""

    @abstractmethod
    def monitored(self, name: str) -> float:
        """Return the score that selects the best model (`training.monitor`); higher is better, so a loss is negated."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a bundle's signature, including `loss`."""

    @abstractmethod
    def to_row(self) -> dict[str, float]:
        """Return columns of the logs."""

    @abstractmethod
    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """Return a line with the scores, and a list of further lines; `first` is True at a run's first validation."""


@dataclass(frozen=True)
class LikelihoodScores(Scores):
    """Scores whose loss is a mean of −log p."""

    nll: float
    """Mean of −log p, in nats."""

    @property
    def loss(self) -> float:
        """The loss, which is `nll`."""
        return self.nll

    @property
    def perplexity(self) -> float:
        """exp(nll); infinity if it overflows."""
        return math.exp(self.nll) if self.nll < 700 else math.inf

    def monitored(self, name: str) -> float:
        """Return −`nll` for `loss`; for any other name, the field of that name."""
        return -self.nll if name == "loss" else float(getattr(self, name))


class Validator(ABC, Generic[ModelT]):
    """Validation of models on the dev examples."""

    @property
    @abstractmethod
    def num_batches(self) -> int:
        """Number of batches in one validation, for progress bars."""

    @abstractmethod
    def validate(self, model: ModelT, *, after_batch: Callable[[], None] = lambda: None) -> Scores:
        """Score a model; its mode (training or evaluation) is the same afterwards.

        Args:
            model: The model.
            after_batch: Called after each batch; an exception from it ends the validation.

        Raises:
            RequestError: If the model's output is not finite.
        """


class Trainable(ABC, Generic[ConfigT, ModelT, BatchT, BundleT]):
    """A model with its data, ready for training.

    Args:
        config: Settings of the run, including those that were decided while the data were prepared.
        data: Prepared data.
        model: The model to train.
        custom: The part of the model that is the user's own object: `model`, `attention`, or empty.
    """

    started_from: Mapping[str, Any] = MappingProxyType({})
    """Facts about the trained model that training started from, for the signature; empty for random weights."""
    estimated: Mapping[str, Any] = MappingProxyType({})
    """Scores of the models of `scoring_runs`, for the signature of a run without held-out examples."""
    teachers: Sequence[str] = ()
    """Folders of trained models that the model learns from."""
    notes: Sequence[str] = ()
    """Lines about the run, which are printed at its beginning."""
    frozen: Sequence[nn.Parameter] = ()
    """Parameters that training does not change (`model.freeze`)."""
    unit: ClassVar[str]
    """Plural noun of the items whose losses are summed, such as `target tokens`; the speed is shown as these per second."""
    columns: ClassVar[tuple[str, ...]]
    """Columns of the logs, besides those that every run has."""

    def __init__(self, config: ConfigT, data: Data[BatchT], model: ModelT, custom: Custom) -> None:
        self.config, self.model, self.custom = config, model, custom
        self.data: Data[BatchT] = data

    @property
    def speed_column(self) -> str:
        """Name of the logs' column with the speed."""
        return f"{self.unit.replace(' ', '_')}_per_second"

    @abstractmethod
    def sampler(self) -> BucketBatchSampler:
        """Return the sampler that yields the batches of each epoch."""

    @abstractmethod
    def count(self, indices: np.ndarray) -> int:
        """Return the number of losses that are summed for a batch of these training examples."""

    def batch(self, indices: np.ndarray) -> BatchT:
        """Return the tensors of these training examples, on the CPU."""
        return self.data.train.batch(indices)

    @abstractmethod
    def loss(self, batch: BatchT, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return two sums over a batch: the loss to differentiate, and the loss to report.

        Args:
            batch: The batch.
            step: Number of the update, from 1.
            total_steps: Number of updates of the whole run.
        """

    def is_repeatable(self) -> bool:
        """Return whether `loss` starts the same operations on a GPU for all batches of one shape, in every update.

        Such a loss reads nothing but the tensors of the batch and the model, draws no random numbers on the CPU, and stores
        nothing elsewhere. Its batches can be padded (`Batch.padded`). Then its operations can be recorded and replayed.
        """
        return False

    @abstractmethod
    def validator(self, machine: Machine) -> Validator[ModelT] | None:
        """Return the validator of the model on the dev examples; None without dev examples."""

    def scoring_runs(self) -> Sequence[ConfigT]:
        """Return runs with the same settings that each hold out a part of the data. Their scores estimate those of this run
        before it starts. Empty if this run has dev examples, or no estimate is wanted.
        """
        return ()

    def pool_scores(self, scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Combine the scores of the models of `scoring_runs` into one set."""
        raise NotImplementedError

    def row(self, step: int, total_steps: int) -> dict[str, float]:
        """Return the task's own columns of the logs for an update, besides its losses and scores."""
        return {}

    @abstractmethod
    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe the scores of the model that was kept, in one line."""

    def describe_start(self, start: Start[Any]) -> list[str]:
        """Return lines that describe how the data differ from those of the trained model that training starts from."""
        return []

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning with advice about the model that was kept, judged by its scores; empty for no warning."""
        return ""

    @abstractmethod
    def bundle(self, signature: dict[str, Any]) -> BundleT:
        """Return the model in its current state as a bundle; `signature` holds its `scores`."""


class Start(Protocol[PartsT_co]):
    """A trained model that another run starts from."""

    @property
    def folder(self) -> str:
        """Folder that the model was read from."""
        ...

    @property
    def custom(self) -> str:
        """The part of the model that is the user's own object; see `Bundle.custom`."""
        ...

    @property
    def parts(self) -> PartsT_co:
        """Output of the task's `BundleFormat.read_parts`: its tokenizers and labels, for example."""
        ...

    def load_into(self, model: nn.Module, adapt: Callable[[dict[str, Tensor]], None] | None = None) -> None:
        """Copy the weights into a model.

        Args:
            model: The model.
            adapt: Function that is called with the tensors by name before they are copied; it may replace tensors, so that
                they fit the model.

        Raises:
            BundleError: If the model has other tensors.
        """
        ...


@dataclass(frozen=True)
class FoldScore:
    """A score in the table of a cross-validation."""

    name: str
    """Name of the score in `Scores.to_dict`."""
    heading: str
    format: str
    """Format of the values, such as `.2%`."""


class Training(ABC, Generic[ConfigT, PartsT, BundleT]):
    """The part of a task that makes a `Trainable` from a configuration."""

    fold_scores: ClassVar[tuple[FoldScore, ...]] = (FoldScore("loss", "loss", ".4f"),)
    """Scores that a cross-validation shows."""

    def check(self, config: ConfigT, model: object, attention: object) -> None:
        """Check the settings and the user's own objects before any work is done.

        Args:
            config: Configuration of the run.
            model: The user's own model or model function, or None.
            attention: The user's own mechanism, or None.

        Raises:
            ConfigError: If one of them is not suitable.
        """

    @abstractmethod
    def prepare(
        self, config: ConfigT, *, model: Any, attention: Any, start: Start[PartsT] | None, progress: bool
    ) -> Trainable[ConfigT, Any, Any, BundleT]:
        """Read the data and build the model.

        Args:
            config: Configuration of the run.
            model: The same as for `check`.
            attention: The same as for `check`.
            start: A trained model, whose vocabulary and weights the new one starts from.
            progress: Whether to show progress bars.
        """

    def num_folds(self, config: ConfigT) -> int:
        """Return the number of folds of a cross-validation; 0 if the run is not a cross-validation."""
        return 0

    def with_fold(self, config: ConfigT, fold: int) -> ConfigT:
        """Return the settings of the run that holds out this fold, numbered from 1."""
        raise NotImplementedError
