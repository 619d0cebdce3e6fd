"""Everything a run is made of, and the part of it that a checkpoint holds."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from regard.config import PlateauConfig
from regard.errors import BundleError
from regard.machine import Machine
from regard.processes.team import Team
from regard.task import Trainable
from regard.training.folder import RunFolder
from regard.training.logs import Row
from regard.training.optimizer import MovingAverage, build_optimizer
from regard.training.schedule import Change, Plateau, learning_rate_factor, planned_steps

CHECKPOINT_FORMAT = 3
CHECKED_EVERY = 16
"""Updates between looks at the loss, and agreements, where the processor has to wait for GPUs."""


@dataclass
class Progress:
    """Progress of a run."""

    step: int = 0
    """Updates made."""
    epoch: int = 0
    """Epochs finished."""
    batch: int = 0
    """Batches of the unfinished epoch that were trained on."""
    count: int = 0
    """Words, or texts, trained on: what `Trainable.count` counts."""
    seconds: float = 0.0
    """Time spent on training itself."""
    validation_seconds: float = 0.0
    """Time spent on validation and on writing."""
    recent_loss: float = 0.0
    """Σ loss of what was trained on since the last row of the logs."""
    recent_count: int = 0
    """Number of losses in the sum."""
    skipped: int = 0
    """Updates that were not made, since their loss or gradient was not finite."""
    recent_skipped: int = 0
    """Those since the last validation."""
    pieces: int = 1
    """Into how many pieces each batch is cut, so that it fits into memory."""
    validation_due: bool = False
    """Whether the weights after this update are still to be validated."""
    finished: bool = False
    validations: int = 0
    bad_validations: int = 0
    """Validations since the best one."""
    best: float | None = None
    """The best value of the monitored figure; a loss counts negative."""
    best_step: int = 0
    last_steps: list[int] = field(default_factory=list)
    """Updates after which the last validations took place, as many as are averaged."""
    scores: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Results of the validations whose weights are kept, by update; empty without dev pairs."""


class Clock:
    """Adds up where a run's time goes."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._last = progress, time.perf_counter()

    def lap(self, name: Literal["seconds", "validation_seconds"] | None) -> None:
        """Count the time since the last lap as `name`; None forgets it."""
        now = time.perf_counter()
        if name is not None:
            setattr(self._progress, name, getattr(self._progress, name) + now - self._last)
        self._last = now


class Run:
    """A run's task, optimizer and progress."""

    def __init__(
        self, task: Trainable, *, folder: RunFolder, machine: Machine, epoch_batches: int, team: Team | None = None
    ) -> None:
        """Put a run together, at its beginning.

        Args:
            task: Settings, data and model.
            folder: Where the run is kept.
            machine: What it is computed with.
            epoch_batches: Batches in an epoch.
            team: The processes that train together; None for this one alone.
        """
        self.task, self.config, self.folder, self.machine = task, task.config, folder, machine
        self.team = team or Team()
        training = self.config.training
        self.model = task.model.to(machine.device)
        self.optimizer = build_optimizer(self.model, training, bfloat16=machine.bfloat16)
        self.moving_average = MovingAverage(self.model, training.ema_decay) if training.ema_decay else None
        self.plateau = Plateau()
        self.progress = Progress()
        self.clock = Clock(self.progress)
        self.history: list[Row] = []
        self.say: Callable[[str], None] = lambda text: None
        """Tells the user something."""
        self.change: Change | None = None
        """The last change of its settings, if any."""
        self.total_steps = planned_steps(training, epoch_batches)
        self.epoch_steps = -(-epoch_batches // training.accumulate)

    @property
    def epoch(self) -> int:
        """Number of the epoch of the last update, from 1."""
        return self.progress.epoch + (self.progress.batch > 0 or self.progress.step == 0)

    @property
    def num_epochs(self) -> float:
        """Number of epochs of the run; the last one may be partial."""
        return self.total_steps / self.epoch_steps

    def settles_at(self, step: int) -> bool:
        """Return whether processes agree, and losses are looked at, after this update.

        Not after each where that means waiting.
        """
        return self.machine.device.type == "cpu" or step % CHECKED_EVERY == 0

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of an update, numbered from 1."""
        training = self.config.training
        factor = learning_rate_factor(training.schedule, step, self.total_steps)
        rate = training.learning_rate * factor * self.plateau.scale
        return rate if self.change is None else self.change.soften(rate, training.schedule, step, self.total_steps)

    def limits_reached(self) -> list[str]:
        """Return the settings that end the run at this point, with their values."""
        training, progress = self.config.training, self.progress
        minutes = (progress.seconds + progress.validation_seconds) / 60
        reached = {
            "max_epochs": progress.epoch >= training.max_epochs,
            "max_steps": 0 < training.max_steps <= progress.step,
            "max_minutes": 0 < training.max_minutes <= minutes,
            "patience": 0 < training.patience <= progress.bad_validations,
        }
        return [f"training.{name} {getattr(training, name):,g}" for name, holds in reached.items() if holds]

    def apply(self, change: Change) -> None:
        """Apply a change of settings: a run that had ended goes on if it has reached none of the new limits.

        The progress from a checkpoint that was written after the change stays as it is.
        """
        self.change = change
        if self.progress.step <= change.step:
            self.progress.finished = bool(self.limits_reached())
            if change.resets_plateau:
                self.plateau = Plateau()

    def record_validation(self, value: float, scores: dict[str, Any]) -> bool:
        """Take note of a validation of the weights as they are.

        Args:
            value: The figure that is monitored, the higher the better.
            scores: All that was found.

        Returns:
            Whether it is the best so far.
        """
        progress, training = self.progress, self.config.training
        better = progress.best is None or value > progress.best
        if better:
            progress.best, progress.best_step = value, progress.step
        progress.bad_validations = 0 if better else progress.bad_validations + 1
        progress.validations += 1
        progress.recent_skipped = 0
        progress.validation_due = False
        if training.average_last:
            progress.last_steps = [*progress.last_steps, progress.step][-training.average_last :]
        progress.scores = {step: found for step, found in progress.scores.items() if step in self.final_steps()}
        if progress.step in self.final_steps():
            progress.scores[progress.step] = scores
        if isinstance(training.schedule, PlateauConfig):
            self.plateau.update(training.schedule, better, training.learning_rate)
        if training.patience and progress.bad_validations >= training.patience:
            progress.finished = True
        return better

    def final_steps(self) -> list[int]:
        """Return the validations whose weights make the final model, by their updates."""
        return self.progress.last_steps if self.config.training.average_last else [self.progress.best_step]

    def state_dict(self) -> dict[str, Any]:
        """Return everything an exact resume needs, as tensors and plain values.

        Random numbers are missing because each update's are a function of the seed and its number.
        """
        return {
            "format": CHECKPOINT_FORMAT,
            "fingerprint": self.task.data.fingerprint,
            "progress": asdict(self.progress),
            "plateau": asdict(self.plateau),
            "history": self.history,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "moving_average": self.moving_average.averages if self.moving_average else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint.

        Raises:
            BundleError: If it was written by a newer regard, or belongs to another model.
        """
        if state.get("format") != CHECKPOINT_FORMAT:
            raise BundleError(
                f"cannot resume '{self.folder.path}': its checkpoint has format {state.get('format')}, expected "
                f"{CHECKPOINT_FORMAT}; resume it with the version of regard that wrote it"
            )
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise BundleError(
                f"cannot resume '{self.folder.path}': its checkpoint belongs to another model than the one given, or another "
                f"version of regard wrote it ({error})"
            ) from error
        if self.moving_average is not None:
            self.moving_average.load(state["moving_average"])
        self.progress = Progress(**state["progress"])
        self.clock = Clock(self.progress)
        self.plateau = Plateau(**state["plateau"])
        self.history = list(state["history"])

    def weights_are_finite(self) -> bool:
        """Return whether every weight is a finite number."""
        return bool(torch.stack([parameter.detach().sum() for parameter in self.model.parameters()]).isfinite().all())
