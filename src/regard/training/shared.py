"""The parts of a run that several processes share: folder, validation, and the decision when to stop."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from regard.config import RunConfig
from regard.config.loading import load_config, parse_layer, render_config
from regard.processes.signals import AgreedSignals
from regard.processes.team import Team
from regard.task import Scores, Validator
from regard.training.callbacks import Callback, ValidationStopped
from regard.training.data import Update
from regard.training.folder import RunFolder
from regard.training.run import Run


def open_folder(path: str | Path, team: Team) -> RunFolder:
    """Return a run's folder, for one process or several."""
    return RunFolder(path) if team.ranks.alone else SharedFolder(path, team)


def _by_first(name: str) -> Any:
    """Build a method that calls that of `RunFolder` in the first process, and returns or raises the same in every process."""

    def method(self: "SharedFolder", *arguments: Any, **named: Any) -> Any:
        return self._team.by_first(lambda: getattr(self._own, name)(*arguments, **named))

    return method


class SharedFolder(RunFolder):
    """A run's folder that the first process reads and writes for all, so that other hosts need no access to it."""

    def __init__(self, path: str | Path, team: Team) -> None:
        super().__init__(path)
        self._team, self._own = team, RunFolder(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder with `RunFolder.held` in the first process, and raise its errors in every process."""
        with ExitStack() as stack:
            self._team.by_first(lambda: stack.enter_context(self._own.held()))
            yield

    def read_start(self) -> tuple[RunConfig, dict[str, Any]]:
        """Call `RunFolder.read_start` in the first process, and return its result in every process."""

        def read() -> tuple[str, dict[str, Any]]:
            config, facts = self._own.read_start()
            return render_config(config), facts

        settings, facts = self._team.by_first(read)
        return load_config(parse_layer(settings, "the first process's config.yaml")), facts

    check_free, check_begun, start = _by_first("check_free"), _by_first("check_begun"), _by_first("start")
    change_settings, load_start = _by_first("change_settings"), _by_first("load_start")
    save_checkpoint, has_checkpoint = _by_first("save_checkpoint"), _by_first("has_checkpoint")
    load_checkpoint, save_weights = _by_first("load_checkpoint"), _by_first("save_weights")
    load_weights = _by_first("load_weights")


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
            except ValidationStopped:
                return None
            monitored = scores.monitored(self._monitor)
            return {"loss": scores.loss, "monitored": monitored, "dict": scores.to_dict(), "row": scores.to_row()}

        values = self._signals.team.by_first(work)
        if values is None:
            self._signals.agree()  # all processes must handle a signal together
            raise ValidationStopped
        return scores or SimpleNamespace(
            loss=values["loss"],
            monitored=lambda name: values["monitored"],
            to_dict=lambda: values["dict"],
            to_row=lambda: values["row"],
            describe=lambda first: ("", []),  # only the first process prints
        )  # type: ignore[return-value]


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
