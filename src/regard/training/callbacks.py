"""Actions between two updates, in this order: validation, log, checkpoint, display."""

import math
from collections.abc import Callable
from typing import Any

from regard.errors import Interrupted, RequestError
from regard.processes.signals import Signals
from regard.task import Scores, Validator
from regard.training.data import Update
from regard.training.logs import Logs, Row
from regard.training.progress import Reporter
from regard.training.run import Run
from regard.training.updater import Updater, not_finite, weights_of

LOGGED_EVERY = 50
"""Number of updates between two rows of the logs, in addition to those at validations."""

SaveBundle = Callable[[dict[str, Any]], None]


class ValidationStopped(Exception):
    """A signal interrupted a validation."""


class Callback:
    """Base class of actions before the first update and after each update."""

    def start(self) -> None:
        """Act before the first update."""

    def after_update(self, update: Update) -> None:
        """Act after an update."""


class Validation(Callback):
    """A callback that validates the model when a validation is due, and stores the weights that the final model may use."""

    def __init__(
        self,
        run: Run,
        updater: Updater,
        validator: Validator | None,
        signals: Signals,
        reporter: Reporter,
        logs: Logs,
        save_bundle: SaveBundle,
    ) -> None:
        """Store the parts of the run.

        Args:
            run: The run.
            updater: The updater of the run.
            validator: Validator of the model, or None if there are no dev examples. Without one, the current model counts as
                the best whenever a validation is due.
            signals: Signals; a signal interrupts a validation, which is repeated when the run is resumed.
            reporter: Reporter that shows scores and samples.
            logs: Logs, which get a row at each validation and every `LOGGED_EVERY` updates.
            save_bundle: Function that writes the current model with its scores.
        """
        self._run, self._updater, self._validator, self._signals = run, updater, validator, signals
        self._reporter, self._logs, self._save_bundle = reporter, logs, save_bundle

    def start(self) -> None:
        """Repeat an interrupted validation."""
        self._run.clock.lap(None)
        self._validate_if_due()

    def after_update(self, update: Update) -> None:
        """Validate if a validation is due; else write a row of the logs every `LOGGED_EVERY` updates."""
        self._validate_if_due()
        progress = self._run.progress
        # An interrupted validation gets its row when it is repeated.
        if progress.recent_count and not progress.validation_due and progress.step % LOGGED_EVERY == 0:
            self._updater.settle()
            self._log(None)

    def _validate_if_due(self) -> None:
        if self._run.progress.validation_due and not self._signals.received:
            self._updater.settle(weights=True)
            self._validate()

    def _validate(self) -> None:
        run = self._run
        if run.moving_average is not None:
            run.moving_average.swap()
        try:
            scores = self._score()
        except ValidationStopped:
            return
        finally:
            if run.moving_average is not None:
                run.moving_average.swap()
        self._log(scores)

    def _score(self) -> Scores | None:
        run, scores, value = self._run, None, float(self._run.progress.step)
        if self._validator is not None:
            scores = self._scores(self._validator)
            value = scores.monitored(run.config.training.monitor)
        better = run.record_validation(value, scores.to_dict() if scores else {})
        if run.progress.step in run.progress.scores:
            run.folder.save_weights(run.progress.step, weights_of(run.model))
        if better:
            self._save_bundle(scores.to_dict() if scores else {})
        self._reporter.say(describe_validation(run, scores, better=better))
        return scores

    def _scores(self, validator: Validator) -> Scores:
        with self._reporter.validating(validator.num_batches) as advance:
            try:
                scores = validator.validate(self._run.model, after_batch=lambda: self._go_on(advance))
            except RequestError as error:  # raised by validators only if scores are not finite
                raise not_finite(self._run, "output on dev") from error
        if not math.isfinite(scores.loss):
            raise not_finite(self._run, "loss on dev")
        return scores

    def _go_on(self, advance: Callable[[], None]) -> None:
        if self._signals.pending:
            raise ValidationStopped
        advance()

    def _log(self, scores: Scores | None) -> None:
        run = self._run
        row = log_row(run, scores)
        run.history.append(row)
        run.progress.recent_loss, run.progress.recent_count = 0.0, 0
        self._logs.write(row)


class Checkpointing(Callback):
    """A callback that writes checkpoints after each epoch, every `checkpoint_every` updates, at the end, and after a signal.

    After a signal, it raises `Interrupted` once the checkpoint is written.
    """

    def __init__(self, run: Run, updater: Updater, signals: Signals) -> None:
        self._run, self._updater, self._signals = run, updater, signals

    def start(self) -> None:
        """Write a checkpoint if there was a signal before the first update, or a repeated validation ended the run."""
        if self._signals.received or self._run.progress.finished:
            self._save()

    def after_update(self, update: Update) -> None:
        """Write a checkpoint if one is due."""
        progress, every = self._run.progress, self._run.config.training.checkpoint_every
        due = update.last or progress.finished or (every and progress.step % every == 0)
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
    """A callback that updates the progress bars."""

    def __init__(self, run: Run, reporter: Reporter) -> None:
        self._run, self._reporter = run, reporter

    def start(self) -> None:
        """Show the bars."""
        self._reporter.start(self._run)
        self._run.clock.lap("validation_seconds")

    def after_update(self, update: Update) -> None:
        """Update the bars."""
        self._reporter.update(self._run)
        self._run.clock.lap("validation_seconds")


def log_row(run: Run, scores: Scores | None) -> Row:
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
    if scores is not None:
        row |= scores.to_row()
    return row


def describe_validation(run: Run, scores: Scores | None, *, better: bool) -> str:
    """Describe the scores, with a few examples, for the terminal."""
    progress = run.progress
    head = f"epoch {run.epoch:,}, update {progress.step:,}"
    if progress.recent_count:
        head += f": training loss {progress.recent_loss / progress.recent_count:.3f}"
    if scores is None:
        return head
    figures, lines = scores.describe(first=progress.validations == 1)
    best = ", the best so far" if better and progress.validations > 1 else ""
    return "\n".join([f"{head}, {figures}{best}", *lines])
