"""The parts of a run, and the state that a checkpoint stores."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from regard.bundle.forms import describe_mismatch
from regard.config import PlateauConfig
from regard.config.loading import changed_names, dump_config, flatten
from regard.errors import BundleError, ConfigError
from regard.machine import Machine
from regard.processes.signals import Signals
from regard.task import Trainable
from regard.training.folder import RunFolder
from regard.training.loss_scale import LossScale
from regard.training.optimizer import MovingAverage, build_optimizer
from regard.training.schedule import Plateau, learning_rate_factor, planned_steps

Row = dict[str, float | int]
"""A row of the logs, by the names of its columns."""

CHECKPOINT_FORMAT = 6
CHECKED_EVERY = 16
"""Number of updates between two checks of the loss on a GPU; more checks would be slower, because the CPU waits for each one.

Several processes also tell each other at these checks which signals they received.
"""


@dataclass
class Progress:
    """Progress of a run."""

    step: int = 0
    """Number of updates so far."""
    epoch: int = 0
    """Number of finished epochs."""
    batch: int = 0
    """Number of used batches of the current epoch."""
    count: int = 0
    """Number of words or texts in training so far, as counted by `Trainable.count`."""
    seconds: float = 0.0
    """Time in seconds for training, without validation."""
    validation_seconds: float = 0.0
    """Time in seconds for validation and for writing files."""
    recent_loss: float = 0.0
    """Sum of the losses since the last row of the logs."""
    recent_count: int = 0
    """Number of losses in `recent_loss`."""
    skipped: int = 0
    """Number of updates that were skipped because their loss or gradient was not finite. In float16, updates whose
    gradient may have overflowed because of the loss scale are not counted.
    """
    recent_skipped: int = 0
    """Number of skipped updates since the last validation."""
    parts: int = 1
    """Number of parts into which each batch is split, so that it fits into memory."""
    validation_due: bool = False
    """Whether the current weights must still be validated."""
    finished: bool = False
    validations: int = 0
    bad_validations: int = 0
    """Number of validations since the best one."""
    best: float | None = None
    """The best value of the monitored score; a loss is negated."""
    best_step: int = 0
    last_steps: list[int] = field(default_factory=list)
    """Updates of the last validations, whose weights are averaged."""
    scores: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Number of an update whose weights are stored → results of the validation after it (empty without dev examples)."""

    @property
    def seconds_used(self) -> float:
        """Time in seconds that counts towards `training.max_minutes`."""
        return self.seconds + self.validation_seconds


class Callback:
    """Base class of actions during a run, for `fit(…, callbacks=[…])`. Each method does nothing by default.

    A run has its `config`, `model`, `task`, `progress` (numbers so far), `history` (rows of the logs), `learning_rate(step)`,
    and `say(text)`, which prints. `run.stop()` ends it early. Losses in `progress` may lag behind by some updates on a GPU.

    Example:
        class Patience(regard.training.Callback):
            def after_validation(self, run, scores):
                if run.progress.bad_validations > 3:
                    run.stop()
    """

    def start(self, run: "Run") -> None:
        """Act before the first update, also after a resume."""

    def after_update(self, run: "Run") -> None:
        """Act after an update, and after the validation that may follow it."""

    def after_validation(self, run: "Run", scores: dict[str, Any]) -> None:
        """Act after a validation; `scores` has the names of the task's scores, and is empty without dev examples."""

    def end(self, run: "Run") -> None:
        """Act after the last update, once the final model is saved."""

    def state_dict(self) -> dict[str, Any]:
        """Return numbers, texts and tensors that a resumed run needs; they are stored in each checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, before `start`."""


class Run:
    """A run's task, optimizer and progress.

    Checkpoints contain the state of the user's callbacks. `say` prints a message, above the bars of the terminal.
    """

    collect_losses: Callable[..., None]
    """`Updater.collect_losses`, which adds the losses of the last updates to the progress."""
    active: Sequence[Callback] = ()
    """All callbacks, regard's own and the user's, in the order in which they act."""

    def __init__(
        self,
        task: Trainable,
        *,
        folder: RunFolder,
        machine: Machine,
        callbacks: Sequence[Callback] = (),
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.task, self.config, self.folder, self.machine = task, task.config, folder, machine
        self.team, self.callbacks, self.say = folder.team, callbacks, say
        self.signals = Signals(folder.team)
        self.sampler = task.sampler()
        training = self.config.training
        self.model = task.model.to(machine.device)
        self.optimizer = build_optimizer(self.model, training, bfloat16=machine.precision == "bfloat16")
        self.loss_scale = LossScale(machine.device) if machine.precision == "float16" else None
        self.moving_average = MovingAverage(self.model, training.ema_decay) if training.ema_decay else None
        self.plateau = Plateau()
        self.progress = Progress()
        self.history: list[Row] = []
        self.stopped = False
        """Whether `stop` was called."""
        self.last_row: Row = {}
        """Scores of the last validation, by their columns in the logs."""
        self.total_steps = planned_steps(training, len(self.sampler))
        self.epoch_steps = -(-len(self.sampler) // training.accumulate)
        self.columns = ("step", "epoch", "learning_rate", *task.columns, "seconds", task.speed_column)
        """Columns of the logs."""
        self._lapped = time.perf_counter()

    @property
    def epoch(self) -> int:
        """Number of the epoch of the last update, from 1."""
        return self.progress.epoch + (self.progress.batch > 0 or self.progress.step == 0)

    def lap(self, name: Literal["seconds", "validation_seconds"]) -> None:
        """Add the time since the last call to a field of the progress: the time of training or of validation."""
        now = time.perf_counter()
        setattr(self.progress, name, getattr(self.progress, name) + now - self._lapped)
        self._lapped = now

    def collects_losses_at(self, step: int) -> bool:
        """Return whether losses are checked after this update, and processes tell each other which signals they received.

        On a GPU, this is not done after every update, because the CPU has to wait for the GPU.
        """
        return self.machine.device.type == "cpu" or step % CHECKED_EVERY == 0

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of an update, numbered from 1."""
        training = self.config.training
        return training.learning_rate * learning_rate_factor(training.schedule, step, self.total_steps) * self.plateau.scale

    def limits_reached(self, *, timed: bool = True) -> list[str]:
        """Return the settings that end the run at this point, with their values; without the time limit unless `timed`."""
        training, progress = self.config.training, self.progress
        reached = {
            "max_epochs": progress.epoch >= training.max_epochs,
            "max_steps": 0 < training.max_steps <= progress.step,
            "max_minutes": timed and 0 < training.max_minutes <= progress.seconds_used / 60,
            "patience": 0 < training.patience <= progress.bad_validations,
        }
        return [f"training.{name} {getattr(training, name):,g}" for name, holds in reached.items() if holds]

    def stop(self) -> None:
        """End the run after the next update. The model is then validated and saved, as at the end of any run."""
        self.stopped = True

    def apply_settings(self, before: dict[str, Any]) -> None:
        """Apply settings of training that differ from those with which the checkpoint was written.

        A finished run continues if it has reached none of the new limits.
        """
        changed = changed_names(before, flatten(dump_config(self.config.training)))
        if changed:
            self.progress.finished = bool(self.limits_reached())
        if any(name.startswith(("learning_rate", "schedule.")) for name in changed):
            self.plateau = Plateau()  # earlier reductions do not apply to another rate

    def record_validation(self, value: float, scores: dict[str, Any]) -> bool:
        """Record a validation of the current weights, and return whether it is the best so far.

        `value` is the monitored score; higher is better. Of equal values, the one with the lower loss is better.
        """
        progress, training = self.progress, self.config.training
        gain, best_gain = (-some.get("loss", 0.0) for some in (scores, progress.scores.get(progress.best_step, {})))
        better = progress.best is None or (value, gain) > (progress.best, best_gain)
        if better:
            progress.best, progress.best_step = value, progress.step
        progress.bad_validations = 0 if better else progress.bad_validations + 1
        progress.validations += 1
        progress.recent_skipped = 0
        progress.validation_due = False
        progress.finished |= 0 < training.patience <= progress.bad_validations
        if training.average_last:
            progress.last_steps = [*progress.last_steps, progress.step][-training.average_last :]
        kept = {*progress.last_steps, progress.best_step}  # patience may still end the run
        progress.scores = {step: own for step, own in {**progress.scores, progress.step: scores}.items() if step in kept}
        if isinstance(training.schedule, PlateauConfig):
            self.plateau.update(training.schedule, better, training.learning_rate)
        return better

    def final_steps(self) -> list[int]:
        """Return the updates of the validations whose weights form the final model: the best if patience has ended the run."""
        progress, training = self.progress, self.config.training
        no_better = 0 < training.patience <= progress.bad_validations
        if training.average_last and not (no_better and progress.best_step in progress.scores):
            return progress.last_steps
        return [progress.best_step]

    def signature(self, scores: dict[str, Any]) -> dict[str, Any]:
        """Return facts about the run for the signature of its model."""
        return {
            "seed": self.config.seed,
            "data": self.task.data.fingerprint,
            "updates": self.progress.step,
            "epochs": round(self.progress.step / self.epoch_steps, 4),
            "kept": self.final_steps(),
            "finished": self.progress.finished,
            "scores": scores or dict(self.task.estimated),
            **({"started_from": dict(self.task.started_from)} if self.task.started_from else {}),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return all data for an exact resume, as tensors and plain values.

        No random state is included, because the random numbers of an update depend only on the seed and the update's number.
        """
        return {
            "format": CHECKPOINT_FORMAT,
            "training": flatten(dump_config(self.config.training)),
            "progress": asdict(self.progress),
            "plateau": asdict(self.plateau),
            "history": self.history,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "moving_average": self.moving_average.averages if self.moving_average else [],
            "loss_scale": self.loss_scale.state_dict() if self.loss_scale else {},
            "log": {name: float(number) for name, number in self.task.log_sums.items()},
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint.

        Raises:
            BundleError: If the checkpoint has another format, or belongs to another model.
            ConfigError: If the run has another number of callbacks than before.
        """
        if state.get("format") != CHECKPOINT_FORMAT:
            raise BundleError(
                f"cannot resume '{self.folder.path}': its checkpoint has format {state.get('format')}, expected "
                f"{CHECKPOINT_FORMAT}; resume it with the version of regard that wrote it"
            )
        own = self.state_dict()  # of the new run: a checkpoint must have the same names, types and shapes
        # The optimizer has no state before its first update, and the run may continue with other settings and number formats.
        not_compared = ("training", "optimizer", "loss_scale", "log", "callbacks")
        forms = {name: own[name] for name in own if name not in not_compared}
        try:
            if wrong := describe_mismatch({name: state.get(name) for name in forms}, forms, "checkpoint"):
                raise ValueError(wrong)
            self.model.load_state_dict(state["model"])
            decays = [group["weight_decay"] for group in self.optimizer.param_groups]
            self.optimizer.load_state_dict(state["optimizer"])
            for group, decay in zip(self.optimizer.param_groups, decays, strict=True):
                group["weight_decay"] = decay  # of the settings, which may have changed; each update sets the learning rate
            if self.moving_average is not None:
                self.moving_average.load(state["moving_average"])
            if self.loss_scale is not None and state["loss_scale"]:
                self.loss_scale.load_state_dict(state["loss_scale"])
            self.task.log_sums = {name: float(number) for name, number in state["log"].items()}
            self.progress, self.plateau = Progress(**state["progress"]), Plateau(**state["plateau"])
            self.history = [dict(row) for row in state["history"]]
            if other := {name for row in self.history for name in row}.difference(self.columns):
                raise ValueError(f"its logs have the unknown column {min(other, key=str)!r}")
            if any(type(step) is not int for step in (*self.progress.scores, *self.progress.last_steps)):
                raise ValueError("its validations are not those of updates")
            saved = list(state["callbacks"])
            self.apply_settings(dict(state["training"]))
        except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
            raise BundleError(
                f"cannot resume '{self.folder.path}': its checkpoint belongs to another model than the one given, or another "
                f"version of regard wrote it ({error})"
            ) from error
        if len(saved) != len(self.callbacks):
            raise ConfigError(
                f"cannot resume '{self.folder.path}' with {len(self.callbacks)} callbacks, because its checkpoint has the "
                f"state of {len(saved)}; give the same callbacks=[…] to regard.resume as to regard.fit"
            )
        for callback, its_state in zip(self.callbacks, saved, strict=True):
            callback.load_state_dict(its_state)

    def load_weights(self, step: int) -> dict[str, torch.Tensor]:
        """Read the weights that were stored at the validation after update number `step`, and check that they fit the model."""
        weights = self.folder.load_weights(step)
        if wrong := describe_mismatch(weights, self.model.state_dict(), "weights"):
            raise BundleError(f"cannot resume '{self.folder.path}': the weights of update {step} don't fit the model: {wrong}")
        return weights
