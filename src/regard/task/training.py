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
    """Encoded examples, which are chosen by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray) -> BatchT_co:
        """Return the examples with these indices as a dataclass of tensors; the first axis of each tensor is the batch."""
        ...


class Data(Protocol[BatchT_co]):
    """Prepared data of a run."""

    @property
    def train(self) -> Corpus[BatchT_co]: ...

    @property
    def fingerprint(self) -> str:
        """Hash of the bytes of all files that the examples come from. A resumed run checks that it has not changed."""
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
        """Return the score `name` (`training.monitor`), which selects the best model. A loss is negated: higher is better."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain data for a bundle's signature; one key is `loss`."""

    @abstractmethod
    def to_row(self) -> dict[str, float]:
        """Return the scores by the names of their columns in the logs."""

    @abstractmethod
    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """Return a line with the scores, and a list of further lines to print; `first` is True at a run's first validation."""


@dataclass(frozen=True)
class LikelihoodScores(Scores):
    """Scores of a model whose loss is a mean of −log p."""

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
        """Return −`nll` for the name `loss`; for any other name, the value of the field with that name."""
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
            after_batch: Function that is called after each batch; an exception from it ends the validation.

        Raises:
            RequestError: If the model's output is not finite. A class may return scores whose loss is not finite instead.
        """


class Trainable(ABC, Generic[ConfigT, ModelT, BatchT, BundleT]):
    """A model and its prepared data, with everything that training needs to know about the task.

    Args:
        config: Settings of the run, including those that were decided while the data were prepared.
        data: Prepared data.
        model: The model to train.
        custom: The part of the model that is the user's own object; see `Bundle.custom`.
    """

    started_from: Mapping[str, Any] = MappingProxyType({})
    """Facts about the trained model that training started from, for the signature; empty for random weights."""
    estimated: Mapping[str, Any] = MappingProxyType({})
    """Result of `pool_scores`, for the signature of a run without held-out examples; empty if nothing was estimated."""
    teachers: Sequence[str] = ()
    """Folders of the trained models from whose probabilities the model learns; empty for none."""
    notes: Sequence[str] = ()
    """Lines about the run, which are printed at its beginning."""
    frozen: Sequence[nn.Parameter] = ()
    """Parameters that training does not change (`model.freeze`)."""
    unit: ClassVar[str]
    """Plural noun of the items whose losses are summed, such as `target tokens`. The speed of training is shown in items per
    second."""
    columns: ClassVar[tuple[str, ...]]
    """Names of the task's columns in the logs, besides the columns that every run has."""

    def __init__(self, config: ConfigT, data: Data[BatchT], model: ModelT, custom: Custom) -> None:
        self.config, self.model, self.custom = config, model, custom
        self.data: Data[BatchT] = data

    @property
    def speed_column(self) -> str:
        """Name of the column with the speed in the logs."""
        return f"{self.unit.replace(' ', '_')}_per_second"

    @abstractmethod
    def sampler(self) -> BucketBatchSampler:
        """Return the sampler that yields the batches of each epoch."""

    @abstractmethod
    def count(self, indices: np.ndarray) -> int:
        """Return the number of items (`unit`) in these training examples, by which a sum of their losses is divided."""

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

        Its operations can then be recorded and replayed. Such a loss reads nothing but the tensors of the batch and the model,
        draws no random numbers on the CPU, and stores nothing elsewhere. Its batches must have a method like `Batch.padded`.
        """
        return False

    @abstractmethod
    def validator(self, machine: Machine) -> Validator[ModelT] | None:
        """Return an object that validates the model on the dev examples; None if there are no dev examples."""

    def scoring_runs(self) -> Sequence[ConfigT]:
        """Return the settings of runs that estimate the scores of this run, because it has no dev examples.

        These runs have the same settings, but each holds out a part of the data. They are trained and scored before this run
        starts. The result is empty if this run has dev examples, or no estimate is wanted.
        """
        return ()

    def pool_scores(self, scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Combine the scores of the runs of `scoring_runs` into one dictionary of scores."""
        raise NotImplementedError

    def row(self, step: int, total_steps: int) -> dict[str, float]:
        """Return further values for the task's columns in the logs after an update, besides losses and scores."""
        return {}

    def log_state(self) -> dict[str, float]:
        """Return the numbers that `row` has collected since the last row, for a checkpoint; none by default.

        Only the numbers of the process that writes the checkpoint are kept.
        """
        return {}

    def load_log_state(self, state: Mapping[str, float]) -> None:
        """Restore the numbers of `log_state` when a run is resumed."""

    @abstractmethod
    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe in one line the scores of the model that a run has kept."""

    def describe_start(self, start: Start[Any]) -> list[str]:
        """Return lines that describe how the data differ from those of the trained model that training starts from."""
        return []

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning with advice if the scores of the model that a run has kept are suspicious; else an empty text."""
        return ""

    @abstractmethod
    def bundle(self, signature: dict[str, Any]) -> BundleT:
        """Return the model in its current state as a bundle; `signature` includes the model's `scores`."""


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
        """Output of the task's `BundleFormat.read_parts`, such as the tokenizers and labels of the model."""
        ...

    def load_into(self, model: nn.Module, adapt: Callable[[dict[str, Tensor]], None] | None = None) -> None:
        """Copy the weights of the trained model into a new model.

        Args:
            model: The new model.
            adapt: Function that is called with a dictionary of the trained model's tensors before they are copied. It may
                replace tensors in this dictionary, so that they fit the new model.

        Raises:
            BundleError: If the names, shapes or types of the tensors do not fit the new model.
        """
        ...


@dataclass(frozen=True)
class FoldScore:
    """A score in the table of a cross-validation."""

    name: str
    """Name of the score in `Scores.to_dict`."""
    heading: str
    format: str
    """Format of the values, as in Python's `format`, such as `.2%`."""


class Training(ABC, Generic[ConfigT, PartsT, BundleT]):
    """The part of a task that makes a `Trainable` from a configuration."""

    fold_scores: ClassVar[tuple[FoldScore, ...]] = (FoldScore("loss", "loss", ".4f"),)
    """Scores that a cross-validation shows for each fold."""

    def check(self, config: ConfigT, model: object, attention: object) -> None:
        """Check the settings and the user's own objects before any work is done.

        Args:
            config: Configuration of the run.
            model: The user's own model or model function, or None.
            attention: The user's own attention mechanism, or None.

        Raises:
            ConfigError: If a setting or an object is not suitable.
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
            start: A trained model, whose vocabulary and weights the new model starts from; None for random weights.
            progress: Whether to show progress bars.
        """

    def num_folds(self, config: ConfigT) -> int:
        """Return the number of folds of a cross-validation; 0 if the run is not a cross-validation."""
        return 0

    def with_fold(self, config: ConfigT, fold: int) -> ConfigT:
        """Return the settings of the run that holds out this fold; folds are numbered from 1."""
        raise NotImplementedError
