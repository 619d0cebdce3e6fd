"""The parts of a run that several processes share: folder, validation, and the decision when to stop."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.config import RunConfig
from regard.config.loading import load_config, parse_layer, render_config
from regard.processes.signals import AgreedSignals
from regard.processes.team import Team
from regard.task import Scores, Validator
from regard.training.callbacks import Callback, Stopped
from regard.training.data import Update
from regard.training.folder import RunFolder
from regard.training.run import Run


def open_folder(path: str | Path, team: Team) -> RunFolder:
    """Return a run's folder, for one process or several."""
    return RunFolder(path) if team.ranks.alone else SharedFolder(path, team)


class SharedFolder(RunFolder):
    """A run's folder that the first process reads and writes for all, so that other hosts need no access to it."""

    def __init__(self, path: str | Path, team: Team) -> None:
        super().__init__(path)
        self._team, self._own = team, RunFolder(path)

    def check_free(self, *, overwrite: bool) -> None:
        """Call `RunFolder.check_free` in the first process, and raise its errors in every process."""
        self._team.by_first(lambda: self._own.check_free(overwrite=overwrite))

    def check_begun(self) -> None:
        """Call `RunFolder.check_begun` in the first process, and raise its errors in every process."""
        self._team.by_first(lambda: self._own.check_begun())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder with `RunFolder.held` in the first process, and raise its errors in every process."""
        with ExitStack() as stack:
            self._team.by_first(lambda: stack.enter_context(self._own.held()))
            yield

    def start(self, config: RunConfig, facts: dict[str, Any], model: dict[str, Any] | None = None) -> None:
        """Call `RunFolder.start` in the first process, and raise its errors in every process."""
        self._team.by_first(lambda: self._own.start(config, facts, model))

    def change_settings(self, config: RunConfig, change: dict[str, Any]) -> None:
        """Call `RunFolder.change_settings` in the first process, and raise its errors in every process."""
        self._team.by_first(lambda: self._own.change_settings(config, change))

    def load_start(self) -> dict[str, Any]:
        """Call `RunFolder.load_start` in the first process, and return its result in every process."""
        return self._team.by_first(lambda: self._own.load_start())

    def read_start(self) -> tuple[RunConfig, dict[str, Any]]:
        """Call `RunFolder.read_start` in the first process, and return its result in every process."""

        def read() -> tuple[str, dict[str, Any]]:
            config, facts = self._own.read_start()
            return render_config(config), facts

        settings, facts = self._team.by_first(read)
        return load_config(parse_layer(settings, "the first process's config.yaml")), facts

    def save_checkpoint(self, state: dict[str, Any], keep: Iterable[int]) -> None:
        """Call `RunFolder.save_checkpoint` in the first process, and raise its errors in every process."""
        self._team.by_first(lambda: self._own.save_checkpoint(state, keep))

    def has_checkpoint(self) -> bool:
        """Call `RunFolder.has_checkpoint` in the first process, and return its result in every process."""
        return self._team.by_first(lambda: self._own.has_checkpoint())

    def load_checkpoint(self) -> Any:
        """Call `RunFolder.load_checkpoint` in the first process, and return its result in every process."""
        return self._team.by_first(lambda: self._own.load_checkpoint())

    def save_weights(self, step: int, weights: dict[str, Tensor]) -> None:
        """Call `RunFolder.save_weights` in the first process, and raise its errors in every process."""
        self._team.by_first(lambda: self._own.save_weights(step, weights))

    def load_weights(self, step: int) -> dict[str, Tensor]:
        """Call `RunFolder.load_weights` in the first process, and return its result in every process."""
        return self._team.by_first(lambda: self._own.load_weights(step))


class _FirstScores(Scores):
    """Scores of the first process, as the other processes get them."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @property
    def loss(self) -> float:
        """Mean loss over all dev examples."""
        return self._values["loss"]

    def monitored(self, name: str) -> float:
        """Return the score that `training.monitor` names."""
        return self._values["monitored"]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return self._values["scores"]

    def to_row(self) -> dict[str, float]:
        """Return the scores by the names of their columns in the logs."""
        return self._values["row"]

    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """Return nothing: only the first process prints."""
        return "", []


class FirstValidates(Validator):
    """Validator that runs in the first process, and returns the scores in all processes."""

    def __init__(self, validator: Validator, signals: AgreedSignals, monitor: str) -> None:
        self._validator, self._signals, self._monitor = validator, signals, monitor

    @property
    def num_batches(self) -> int:
        """Number of batches in one validation, all of which the first process computes."""
        return self._validator.num_batches

    def validate(self, model: Any, *, after_batch: Callable[[], None] = lambda: None) -> Scores:
        """Score a model; an error in the first process is raised in all processes."""
        scores: Scores | None = None

        def work() -> dict[str, Any] | None:
            nonlocal scores
            try:
                scores = self._validator.validate(model, after_batch=after_batch)
            except Stopped:
                return None
            monitored = scores.monitored(self._monitor)
            return {"loss": scores.loss, "monitored": monitored, "scores": scores.to_dict(), "row": scores.to_row()}

        values = self._signals.team.by_first(work)
        if values is None:
            self._signals.agree()  # all processes must handle a signal together
            raise Stopped
        return scores or _FirstScores(values)


class Agreement(Callback):
    """Callback in which the processes agree on signals and on whether the time limit is reached. It runs before all others."""

    def __init__(self, run: Run, signals: AgreedSignals) -> None:
        self._run, self._signals = run, signals

    def start(self) -> None:
        """Agree on signals before the first update."""
        self._agree()

    def after_update(self, update: Update) -> None:
        """Agree after an update, but on a GPU only after every `CHECKED_EVERY`-th update."""
        if self._run.settles_at(self._run.progress.step):
            self._agree()

    def _agree(self) -> None:
        progress = self._run.progress
        # By the clock of another process, the time limit may be reached although it is not by the clock of this one.
        if self._signals.agree(finished=progress.finished) and not progress.finished:
            progress.finished = progress.validation_due = True
