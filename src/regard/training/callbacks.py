"""Actions of regard's own before, between and after the updates of a run; `run.Callback` is their base class."""

import csv
import math
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from types import TracebackType
from typing import Any, Self, TextIO

from regard import disk
from regard.errors import Interrupted, RequestError
from regard.processes.signals import AgreedSignals, Signals
from regard.task import Scores, Validator
from regard.training.folder import write_error
from regard.training.progress import Reporter
from regard.training.run import Callback, Row, Run
from regard.training.updater import Updater, not_finite, weights_of

LOGGED_EVERY = 50
"""Number of updates between two rows of the logs, in addition to those at validations."""
_COLUMNS = ("step", "epoch", "learning_rate")
"""First columns of the logs of every run."""


class ValidationStopped(Exception):
    """A signal interrupted a validation."""


class Validation(Callback):
    """Validate the model when a validation is due, and store the weights that the final model may use.

    The first process validates; all processes get the scores.

    Args:
        run: The run.
        updater: The updater of the run.
        validator: Validator of the model, or None if there are no dev examples. Without one, the current model counts as
            the best whenever a validation is due.
        signals: Signals; a signal interrupts a validation, which is repeated when the run is resumed.
        reporter: Reporter that shows scores and samples.
        save_bundle: Function that writes the current model with its scores.
        others: Callbacks that act after each validation.
    """

    def __init__(
        self,
        run: Run,
        updater: Updater,
        validator: Validator | None,
        signals: Signals,
        reporter: Reporter,
        save_bundle: Callable[[dict[str, Any]], None],
        others: list[Callback],
    ) -> None:
        self._run, self._updater, self._validator, self._signals = run, updater, validator, signals
        self._reporter, self._save_bundle, self._others = reporter, save_bundle, others

    def start(self, run: Run) -> None:
        """Repeat an interrupted validation."""
        run.clock.lap(None)
        self._validate_if_due()

    def after_update(self, run: Run) -> None:
        """Validate if a validation is due."""
        self._validate_if_due()

    def _validate_if_due(self) -> None:
        run = self._run
        if not run.progress.validation_due or self._signals.received:
            return
        self._updater.settle(weights=True)
        if run.moving_average is not None:
            run.moving_average.swap()
        try:
            scores = self._score()
        except ValidationStopped:
            return
        finally:
            if run.moving_average is not None:
                run.moving_average.swap()
        for callback in self._others:
            callback.after_validation(run, scores)

    def _score(self) -> dict[str, Any]:
        """Score the model, store its weights if they are needed, and return its scores."""
        run = self._run
        value, text = float(run.progress.step), ""
        scores: dict[str, Any] = {}
        if self._validator is not None:
            with self._reporter.validating(self._validator.num_batches) as advance:
                result = run.team.by_first(lambda: self._measure(self._validator, advance))  # type: ignore[arg-type]
            if result is None:
                if isinstance(self._signals, AgreedSignals):
                    self._signals.agree()  # all processes must handle a signal together
                raise ValidationStopped
            value, scores, run.last_row, text = result
        better = run.record_validation(value, scores)
        if run.progress.step in run.progress.scores:
            run.folder.save_weights(run.progress.step, weights_of(run.model))
        if better:
            self._save_bundle(scores)
        figures, _, samples = text.partition("\n")
        head = describe_validation(run, figures, better=better)
        self._reporter.say("\n".join(filter(None, (head, samples))))
        return scores

    def _measure(self, validator: Validator, advance: Callable[[], None]) -> tuple[float, dict[str, Any], Row, str] | None:
        """Return the monitored score, all scores, their columns in the logs, and their description; None after a signal."""
        run = self._run
        try:
            scores: Scores = validator.validate(run.model, after_batch=lambda: self._go_on(advance))
        except ValidationStopped:
            return None
        except RequestError as error:  # raised by validators only if scores are not finite
            raise not_finite(run, "output on dev") from error
        if not math.isfinite(scores.loss):
            raise not_finite(run, "loss on dev")
        figures, lines = scores.describe(first=not run.progress.validations)
        return scores.monitored(run.config.training.monitor), scores.to_dict(), scores.to_row(), "\n".join([figures, *lines])

    def _go_on(self, advance: Callable[[], None]) -> None:
        if self._signals.pending:
            raise ValidationStopped
        advance()


class Logging(Callback):
    """Write a row of the logs at each validation and every `LOGGED_EVERY` updates: a CSV file, and TensorBoard's files.

    After a resume, the logs continue from the rows of the checkpoint, so that there are no duplicates. Only the first of
    several processes writes.
    """

    def __init__(self, run: Run, updater: Updater) -> None:
        self._run, self._updater = run, updater
        self._file: TextIO | None = None
        self._board: Any = None
        self._path = run.folder.logs / "metrics.csv"

    def __enter__(self) -> Self:
        """Open the files."""
        run = self._run
        if run.team.first:
            columns = (*_COLUMNS, *run.task.columns, "seconds", run.task.speed_column)
            try:
                run.folder.logs.mkdir(parents=True, exist_ok=True)
                kept = StringIO()
                before = csv.DictWriter(kept, columns)
                before.writeheader()
                before.writerows(run.history)
                disk.write(self._path, kept.getvalue())
                self._file = disk.open_log(self._path)
                self._rows = csv.DictWriter(self._file, columns)
                if run.config.training.tensorboard:
                    from torch.utils.tensorboard import SummaryWriter

                    # Rows that an interrupted run wrote after its last checkpoint are removed.
                    first = int(run.history[-1]["step"]) + 1 if run.history else 0
                    self._board = SummaryWriter(str(run.folder.logs), purge_step=first)
            except OSError as error:
                self.__exit__(None, None, None)
                raise write_error(self._path, error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for file in (self._file, self._board):
            if file is not None:
                with suppress(OSError):  # the disk is full, which was reported; `resume` writes the missing rows again
                    file.close()

    def after_validation(self, run: Run, scores: dict[str, Any]) -> None:
        """Write a row with scores."""
        self._write(log_row(run, run.last_row if scores else {}))

    def after_update(self, run: Run) -> None:
        """Write a row without scores every `LOGGED_EVERY` updates."""
        progress = run.progress
        # An interrupted validation gets its row when it is repeated.
        if progress.recent_count and not progress.validation_due and progress.step % LOGGED_EVERY == 0:
            self._updater.settle()
            self._write(log_row(run, {}))

    def _write(self, row: Row) -> None:
        run = self._run
        run.history.append(row)
        run.progress.recent_loss, run.progress.recent_count = 0.0, 0
        if self._file is None:
            return
        try:
            self._rows.writerow(row)
            self._file.flush()
            if self._board is not None:
                for name, value in row.items():
                    if name != "step":
                        self._board.add_scalar(name, value, row["step"])
                self._board.flush()
        except OSError as error:
            raise write_error(self._path, error) from error


class EarlyStopping(Callback):
    """End the run after `training.patience` validations without improvement."""

    def after_validation(self, run: Run, scores: dict[str, Any]) -> None:
        """End the run if the limit is reached."""
        patience = run.config.training.patience
        if patience and run.progress.bad_validations >= patience:
            run.progress.finished = True


class Checkpointing(Callback):
    """Write checkpoints after each epoch, every `checkpoint_every` updates, at the end, and after a signal.

    After a signal, it raises `Interrupted` once the checkpoint is written.
    """

    def __init__(self, run: Run, updater: Updater, signals: Signals) -> None:
        self._run, self._updater, self._signals = run, updater, signals

    def start(self, run: Run) -> None:
        """Write a checkpoint if there was a signal before the first update, or a repeated validation ended the run."""
        if self._signals.received or run.progress.finished:
            self._save()

    def after_update(self, run: Run) -> None:
        """Write a checkpoint if one is due."""
        progress, every = run.progress, run.config.training.checkpoint_every
        due = not progress.batch or progress.finished or (every and progress.step % every == 0)
        if due or self._signals.received:
            self._save()

    def _save(self) -> None:
        run = self._run
        self._updater.settle(weights=True)
        run.clock.lap("validation_seconds")
        run.folder.save_checkpoint(run.state_dict(), keep=run.progress.scores)
        if self._signals.received is not None:
            raise Interrupted(
                f"stopped after update {run.progress.step:,} of {run.total_steps:,}; "
                f"continue with: regard resume {run.folder.path}",
                signal_number=self._signals.received,
            )


class Display(Callback):
    """Show the progress."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def start(self, run: Run) -> None:
        """Show the bars."""
        self._reporter.start(run)
        run.clock.lap("validation_seconds")

    def after_update(self, run: Run) -> None:
        """Update the bars, and estimate the time of training once."""
        if estimate := self._reporter.pace.update(run):
            self._reporter.say(estimate)
        self._reporter.update(run)
        run.clock.lap("validation_seconds")


def log_row(run: Run, scores: Row) -> Row:
    """Return one row of the logs."""
    progress = run.progress
    row: Row = {
        "step": progress.step,
        "epoch": run.epoch,
        "learning_rate": run.learning_rate(max(progress.step, 1)),
        "seconds": round(progress.seconds, 3),
        run.task.speed_column: round(progress.count / progress.seconds, 1) if progress.seconds else 0.0,
        **run.task.row(max(progress.step, 1), run.total_steps),
    }
    if progress.recent_count:
        nll = progress.recent_loss / progress.recent_count
        row |= {"train_nll": nll}
        if "train_perplexity" in run.task.columns:
            row |= {"train_perplexity": math.exp(min(nll, 700.0))}
    return row | scores


def describe_validation(run: Run, figures: str, *, better: bool) -> str:
    """Describe the scores of a validation in one line."""
    progress = run.progress
    head = f"epoch {run.epoch:,}, update {progress.step:,}"
    if progress.recent_count:
        head += f": training loss {progress.recent_loss / progress.recent_count:.3f}"
    best = ", the best so far" if better and progress.validations > 1 else ""
    return f"{head}, {figures}{best}" if figures else head
