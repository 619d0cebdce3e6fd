"""The parts of a task that training uses: data, model, loss, validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, make_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from regard.config.plugins import locate_task
from regard.errors import ConfigError, out_of_memory
from regard.task.bundle import Bundle, Custom

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float
    from torch import Tensor, nn

    from regard.machine import Machine
    from regard.text.batching import BucketBatchSampler


@dataclass(frozen=True)
class Data:
    """Prepared data of a run."""

    train: Any
    """Examples to train on. They have `__len__`, `lengths` (an array with the length of each example), and `batch(indices)`,
    which returns the examples with these indices as a dataclass of tensors, whose first axis is the batch."""
    dev: Any
    """Examples to validate on; may be empty."""
    fingerprint: str
    """Hash of the bytes of all files that the examples come from. A resumed run checks that it has not changed."""
    report: Any
    """Report on the files: what was kept and what was skipped. Its methods are `render()` and `to_dict()`."""


class Examples:
    """Examples in memory, for a task of your own. Each example is an array of numbers for each name, all of the same length.

    Args:
        rows: The examples.
        padding: Number at the end of the shorter rows of a batch, by name.
    """

    def __init__(self, rows: Sequence[Mapping[str, np.ndarray]], padding: Mapping[str, int]) -> None:
        import numpy

        self._rows, self._padding, self._batch = rows, padding, make_dataclass("Batch", padding)
        self.lengths = numpy.array([len(next(iter(row.values()))) for row in rows])

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, indices: Any) -> Any:
        """Return the examples with these indices: a dataclass with a tensor (B,T) for each name."""
        import torch

        pad = torch.nn.utils.rnn.pad_sequence
        columns = {name: [torch.from_numpy(self._rows[index][name]) for index in indices] for name in self._padding}
        padded = {name: pad(rows, batch_first=True, padding_value=self._padding[name]) for name, rows in columns.items()}
        return self._batch(**padded)


@dataclass(frozen=True)
class Scores:
    """Results of one validation. A task's subclass has fields for further scores."""

    nll: float
    """Mean of −log p over all dev examples, in nats: the loss."""

    def monitored(self, name: str) -> float:
        """Return the score `name` (`training.monitor`), which selects the best model. The loss is negated: higher is better."""
        return -self.nll if name == "loss" else float(getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain data for a bundle's signature; one key is `loss`."""
        plain = asdict(self)
        return {"loss": plain.pop("nll"), **plain}

    def to_row(self, columns: Sequence[str]) -> dict[str, float]:
        """Return the scores that are among the columns of the logs."""
        plain = self.to_dict()
        named = {**plain, "dev_nll": plain["loss"], "dev_perplexity": plain.get("perplexity")}
        return {name: named[name] for name in columns if name in named}

    def lines(self, *, first: bool) -> list[str]:
        """Return further lines to print below the scores; `first` is True at a run's first validation."""
        return []


class Validator:
    """Validation of a model on the dev examples. It computes the loss; a subclass can compute further scores.

    Args:
        task: The model and its data.
        machine: Device and number format.
    """

    def __init__(self, task: Trainable, machine: Machine) -> None:
        from regard.machine import prediction_tokens
        from regard.text.batching import length_batches

        self.task, self.machine, self.corpus = task, machine, task.data.dev
        tokens, on_cpu = task.config.training.batch_tokens, machine.device.type == "cpu"
        tokens = tokens if on_cpu else max(tokens, prediction_tokens(machine.device))  # a GPU is faster with few large batches
        self._batches = length_batches(task.lengths(self.corpus), tokens)

    @property
    def num_batches(self) -> int:
        """Number of batches in one validation, for progress bars."""
        return len(self._batches)

    def validate(self, *, after_batch: Callable[[], None] = lambda: None) -> Scores:
        """Score the model; its mode (training or evaluation) is the same afterwards.

        Args:
            after_batch: Function that is called after each batch; an exception from it ends the validation.

        Raises:
            RequestError: If the model's output is not finite. A class may return scores whose loss is not finite instead.
        """
        from regard.machine import evaluating, in_parts, to_device

        def loss_of(indices: np.ndarray) -> float:
            with self.machine.autocast():
                return self.nll(to_device(self.corpus.batch(indices), self.machine.device))

        total = 0.0
        with evaluating(self.task.model):
            for indices in self._batches:
                total += sum(in_parts(loss_of, indices))
                after_batch()
            return self.score(total / int(self.task.sizes(self.corpus).sum()), after_batch)

    def nll(self, batch: Any) -> float:
        """Return the sum of the losses of a batch."""
        return self.task.nll(batch).item()

    def score(self, nll: float, after_batch: Callable[[], None]) -> Scores:
        """Return the scores of the model, whose mean loss is `nll`."""
        return self.task.scores_class(nll)


class Trainable(ABC):
    """A model and its prepared data, with everything that training needs to know about the task.

    Args:
        config: Settings of the run, including those that were decided while the data were prepared.
        data: Prepared data, with the attributes of `Data`.
        model: The model to train.
        parts: Content of the task's own files, such as tokenizers; see `Bundle.parts`.
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
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "dev_nll")
    """Names of the task's columns in the logs, besides the columns that every run has."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Optional settings of `training` that `loss` (`consistency`) and `batch` (`bpe_dropout`) follow; others are refused."""
    validator_class: ClassVar[type[Validator]] = Validator
    """Class that validates the model on the dev examples."""
    scores_class: ClassVar[type[Scores]] = Scores
    """Class of the results of a validation that computes only the loss."""

    def __init__(self, config: Any, data: Any, model: nn.Module, parts: Any, custom: Custom = "") -> None:
        self.config, self.data, self.model, self.parts, self.custom = config, data, model, parts, custom
        self.log_sums: dict[str, Any] = {}
        """Numbers that `row` collects between two rows of the logs. Checkpoints keep those of the process that writes them."""

    @property
    def speed_column(self) -> str:
        """Name of the column with the speed in the logs."""
        return f"{self.unit.replace(' ', '_')}_per_second"

    def lengths(self, corpus: Any) -> np.ndarray:
        """Return the length of each example, by which examples are grouped into batches."""
        return corpus.lengths

    def sizes(self, corpus: Any) -> np.ndarray:
        """Return the number of items (`unit`) of each example, whose losses are summed."""
        return corpus.lengths

    def sampler(self) -> BucketBatchSampler:
        """Return the sampler that yields the batches of each epoch."""
        from regard.text.batching import BucketBatchSampler

        return BucketBatchSampler.of_run(self.config, self.lengths(self.data.train))

    def count(self, indices: np.ndarray) -> int:
        """Return the number of items (`unit`) in these training examples, by which a sum of their losses is divided."""
        return int(self.sizes(self.data.train)[indices].sum())

    def batch(self, indices: np.ndarray) -> Any:
        """Return the tensors of these training examples, on the CPU."""
        return self.data.train.batch(indices)

    @abstractmethod
    def loss(self, batch: Any, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return two sums over a batch: the loss to differentiate, and the loss to report.

        Args:
            batch: The batch.
            step: Number of the update, from 1.
            total_steps: Number of updates of the whole run.
        """

    def nll(self, batch: Any) -> Float[Tensor, ""]:
        """Return the loss of a batch of dev examples: by default, the loss that `loss` reports."""
        return self.loss(batch, 1, 1)[1]

    def is_repeatable(self) -> bool:
        """Return whether `loss` starts the same operations on a GPU for all batches of one shape, in every update.

        Its operations can then be recorded and replayed. Such a loss reads nothing but the tensors of the batch and the model,
        draws no random numbers on the CPU, and stores nothing elsewhere. Its batches must have a method like `Batch.padded`.
        """
        return False

    def validator(self, machine: Machine) -> Validator | None:
        """Return an object that validates the model on the dev examples; None if there are no dev examples."""
        return self.validator_class(self, machine) if len(self.data.dev) else None

    def scoring_runs(self) -> Sequence[Any]:
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

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe in one line scores as returned by `Scores.to_dict`."""
        return ", ".join(f"{name} {value:,.3f}" for name, value in scores.items() if isinstance(value, float))

    def describe_start(self, start: Any) -> list[str]:
        """Return lines that describe how the data differ from those of the trained model that training starts from."""
        return []

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning with advice if the scores of the model that a run has kept are suspicious; else an empty text."""
        return ""

    def bundle(self, signature: dict[str, Any]) -> Bundle:
        """Return the model in its current state as a bundle; `signature` includes the model's `scores`."""
        report = self.data.report.to_dict()
        return Bundle(
            config=self.config, model=self.model, parts=self.parts, signature=signature, report=report, custom=self.custom
        )


class Training(ABC):
    """The part of a task that reads the data and builds the model.

    Attributes:
        trainable: Class of the prepared models.
        fold_scores: Scores that a cross-validation shows for each fold, by their names in `Scores.to_dict`, with the formats
            of their values, such as `.2%`.
        model_class: Class that a user's own model must have; None for any module.
        sizes_name: Name of the arguments of a user's function that builds a model, for messages.
    """

    trainable: ClassVar[type[Trainable]]
    fold_scores: ClassVar[Mapping[str, str]] = MappingProxyType({"loss": ".4f"})
    model_class: ClassVar[type[nn.Module] | None] = None
    sizes_name: ClassVar[str] = "the sizes of the vocabularies"

    def check(self, config: Any, model: object, attention: object) -> None:
        """Check the settings and the user's own objects before any work is done.

        Args:
            config: Configuration of the run.
            model: The user's own model or model function, or None.
            attention: The user's own attention mechanism, or None.

        Raises:
            ConfigError: If a setting or an object is not suitable.
        """
        if not config.data.train:
            raise ConfigError(f"data.train is empty; name {locate_task(config.task).words.missing} to learn from")

    def prepare(self, config: Any, *, model: Any, attention: Any, start: Any, progress: bool) -> Trainable:
        """Read the data and build the model.

        `model` and `attention` are those of `check`. `start` is a trained model (`regard.bundle.StartFiles`), whose vocabulary
        and weights the new model starts from; None for random weights.
        """
        from regard.machine import seed_step

        config, data, parts = self.read(config, start.parts if start else None, progress=progress)
        seed_step(config.seed, 0)  # after reading, so that data from the cache give the same weights
        built = self.build(config, parts, model, attention)
        vocabulary = locate_task(config.task).bundle_format.vocabulary(parts)
        if model is not None and getattr(built, "vocabulary", "") not in ("", vocabulary):
            raise ConfigError(
                "the model given to fit was trained with another vocabulary, or other labels, than these data have, so its ids "
                "mean other tokens or labels. To train it further, name its folder, whose vocabulary is then used: "
                "regard.fit({'data.train': …}, start_from='runs/…'), or `regard train … --from runs/…`"
            )
        is_new = start is None and not getattr(built, "vocabulary", "")
        built.vocabulary = vocabulary  # kept with the model: a resumed run, an ensemble and a student compare it
        custom: Custom = "model" if model is not None else "attention" if attention is not None else ""
        for part in built.modules() if is_new else ():
            if load := getattr(part, "load_pretrained", None):  # an encoder that others have trained
                load()
        task = self.trainable(config, data, built, parts, custom)
        self.begin(task, start, progress=progress)
        return task

    @abstractmethod
    def read(self, config: Any, learned: Any, *, progress: bool) -> tuple[Any, Any, Any]:
        """Read the data.

        Args:
            config: Configuration of the run.
            learned: Parts of the trained model that the run starts from, whose vocabulary is used; None without such a model.
            progress: Whether to show progress bars.

        Returns:
            The configuration, with the settings that depend on the data; the prepared data, with the attributes of `Data`; and
            the content of the task's own files (`Bundle.parts`).
        """

    def held_out(self, config: Any, parts: Any) -> tuple[Sequence[str], bool]:
        """Return inputs of held-out examples, which show a trained model to others, and True.

        If no example was held out, the inputs are those of training examples, and the second value is False.

        Raises:
            DataError: If the files of the data cannot be read any more.
        """
        return (), True

    def sizes(self, parts: Any) -> tuple[int, ...]:
        """Return the arguments of a user's function that builds a model, such as the sizes of the vocabularies."""
        return ()

    def check_sizes(self, model: Any, sizes: tuple[int, ...]) -> str:
        """Return a message if the user's own model does not have these sizes; else an empty text."""
        return ""

    def build(self, config: Any, parts: Any, model: Any, attention: Any) -> Any:
        """Build the configured model, or return the user's own model.

        Raises:
            ConfigError: If there is not enough memory, or the user's object is not a model of the right class and sizes.
        """
        if model is None:
            try:
                return locate_task(config.task).bundle_format.build_model(config, parts, attention)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                message = "the model does not fit into memory; lower the sizes under model, or the sizes of the vocabularies"
                raise ConfigError(message) from error
        from torch import nn

        sizes, expected = self.sizes(parts), self.model_class or nn.Module
        built = model if isinstance(model, expected) else model(*sizes)
        if not isinstance(built, expected):
            raise ConfigError(
                f"model is a {type(built).__name__}, expected a {expected.__module__}.{expected.__name__}, or a function that "
                f"builds one from {self.sizes_name}"
            )
        if message := self.check_sizes(built, sizes):
            raise ConfigError(f"{message}; give fit a function that builds the model from {self.sizes_name}")
        return built

    def begin(self, task: Trainable, start: Any, *, progress: bool) -> None:
        """Prepare the model for its first update: copy the weights of the trained model that the run starts from."""
        if start:
            start.load_into(task.model)

    def folds(self, config: Any) -> list[Any]:
        """Return the settings of the runs of a cross-validation, each of which holds out a fold; none for an ordinary run."""
        return []
