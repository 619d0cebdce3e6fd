"""The parts of a run where several processes share it: one folder, one validation, one decision when to stop."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.config import RunConfig
from regard.errors import RegardError
from regard.processes.signals import AgreedSignals
from regard.processes.team import Team
from regard.task import Scores, Validator
from regard.training.callbacks import Callback
from regard.training.data import Update
from regard.training.folder import RunFolder
from regard.training.run import Run


def open_folder(path: str | Path, team: Team) -> RunFolder:
    """Return a run's folder, for one process or several."""
    return RunFolder(path) if team.ranks.alone else SharedFolder(path, team)


class SharedFolder(RunFolder):
    """A run's folder that the first process reads and writes for all: no other host needs to see it."""

    def __init__(self, path: str | Path, team: Team) -> None:
        super().__init__(path)
        self._team, self._own = team, RunFolder(path)

    def check_free(self, *, overwrite: bool) -> None:
        """As `RunFolder`."""
        self._team.by_first(lambda: self._own.check_free(overwrite=overwrite))

    def check_begun(self) -> None:
        """As `RunFolder`."""
        self._team.by_first(lambda: self._own.check_begun())

    @contextmanager
    def held(self) -> Iterator[None]:
        """As `RunFolder`."""
        with ExitStack() as stack:
            self._team.by_first(lambda: stack.enter_context(self._own.held()))
            yield

    def start(self, config: RunConfig, facts: dict[str, Any], model: dict[str, Any] | None = None) -> None:
        """As `RunFolder`."""
        self._team.by_first(lambda: self._own.start(config, facts, model))

    def change_settings(self, config: RunConfig, change: dict[str, Any]) -> None:
        """As `RunFolder`."""
        self._team.by_first(lambda: self._own.change_settings(config, change))

    def load_start(self) -> dict[str, Any]:
        """As `RunFolder`."""
        return self._team.by_first(lambda: self._own.load_start())

    def read_start(self) -> tuple[RunConfig, dict[str, Any]]:
        """As `RunFolder`."""
        return self._team.by_first(lambda: self._own.read_start())

    def save_checkpoint(self, state: dict[str, Any], keep: Iterable[int]) -> None:
        """As `RunFolder`."""
        self._team.by_first(lambda: self._own.save_checkpoint(state, keep))

    def has_checkpoint(self) -> bool:
        """As `RunFolder`."""
        return self._team.by_first(lambda: self._own.has_checkpoint())

    def load_checkpoint(self) -> Any:
        """As `RunFolder`."""
        return self._team.by_first(lambda: self._own.load_checkpoint())

    def save_weights(self, step: int, weights: dict[str, Tensor]) -> None:
        """As `RunFolder`."""
        self._team.by_first(lambda: self._own.save_weights(step, weights))

    def load_weights(self, step: int) -> dict[str, Tensor]:
        """As `RunFolder`."""
        return self._team.by_first(lambda: self._own.load_weights(step))


class FirstValidates(Validator):
    """Validates in the first process, with the scores in all."""

    def __init__(self, validator: Validator, signals: AgreedSignals) -> None:
        self._validator, self._signals = validator, signals

    @property
    def num_batches(self) -> int:
        """Of the first process."""
        return self._validator.num_batches

    def validate(self, model: Any, *, after_batch: Callable[[], None] = lambda: None) -> Scores:
        """Score a model; what breaks it off in the first process is raised in all."""
        try:
            return self._signals.team.by_first(lambda: self._validator.validate(model, after_batch=after_batch))
        except RegardError:
            raise
        except Exception:  # broken off by a signal, upon which all have to act at once
            self._signals.agree()
            raise


class Agreement(Callback):
    """Goes before all other callbacks: agrees on signals, and on whether the time is up."""

    def __init__(self, run: Run, signals: AgreedSignals) -> None:
        self._run, self._signals = run, signals

    def start(self) -> None:
        """Agree on signals that came before the first update."""
        self._agree()

    def after_update(self, update: Update) -> None:
        """Agree after an update."""
        if self._run.settles_at(self._run.progress.step):
            self._agree()

    def _agree(self) -> None:
        progress = self._run.progress
        if self._signals.agree(finished=progress.finished) and not progress.finished:  # by the clock of another process
            progress.finished = progress.validation_due = True
