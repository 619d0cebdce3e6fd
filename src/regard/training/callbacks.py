"""Regard's own actions before, between and after the updates of a run; `run.Callback` is their base class."""

import csv
import math
from contextlib import suppress
from io import StringIO
from typing import Any, TextIO

from regard import disk
from regard.bundle import save_bundle
from regard.errors import Interrupted, RequestError, one_line
from regard.task import Validator
from regard.training.folder import writing
from regard.training.progress import Reporter
from regard.training.run import Callback, Row, Run
from regard.training.trackers import TensorBoard, Tracker, finite_values, open_trackers
from regard.training.updater import not_finite

LOGGED_EVERY = 50
"""Number of updates between two rows of the logs, in addition to those at validations."""


class ValidationStopped(Exception):
    """A signal interrupted a validation."""


class Validation(Callback):
    """Validate the model when a validation is due, and store the weights that the final model may use.

    The first process validates; all processes get the scores. A signal interrupts a validation, which is repeated when the run
    is resumed. Without dev examples, the validator is None, and the current model counts as the best.
    """

    def __init__(self, validator: Validator | None, reporter: Reporter) -> None:
        self._validator, self._reporter = validator, reporter

    def start(self, run: Run) -> None:
        self._validate_if_due(run)

    def after_update(self, run: Run) -> None:
        self._validate_if_due(run)

    def _validate_if_due(self, run: Run) -> None:
        if not run.progress.validation_due or run.signals.received:
            return
        run.collect_losses(weights=True)
        if run.moving_average is not None:
            run.moving_average.swap()  # the average is what is validated and saved
        try:
            scores = self._score(run)
        except ValidationStopped:
            return
        finally:  # training goes on with its own weights, also after an error
            if run.moving_average is not None:
                run.moving_average.swap()
        for callback in run.active:
            callback.after_validation(run, scores)

    def _score(self, run: Run) -> dict[str, Any]:
        """Score the model, store its weights if they are needed, and return its scores."""
        value, text = float(run.progress.step), ""
        scores: dict[str, Any] = {}
        if self._validator is not None:
            result = run.team.broadcast(lambda: self._measure(run, self._validator))  # type: ignore[arg-type]
            if result is None:
                if not run.team.ranks.alone:
                    run.signals.agree()  # all processes must handle a signal together
                raise ValidationStopped
            value, scores, run.last_row, text = result
        better = run.record_validation(value, scores)
        if run.progress.step in run.progress.scores:
            weights = {name: value.detach().to("cpu", copy=True) for name, value in run.model.state_dict().items()}
            run.folder.save_weights(run.progress.step, weights)
        if better:
            write_bundle(run, scores)
        figures, _, samples = text.partition("\n")
        progress = run.progress
        head = f"epoch {run.epoch:,}, update {progress.step:,}"
        if progress.recent_count:
            head += f": training loss {progress.recent_loss / progress.recent_count:.3f}"
        best = ", the best so far" if better and progress.validations > 1 else ""
        self._reporter.say("\n".join(filter(None, (f"{head}, {figures}{best}" if figures else head, samples))))
        return scores

    def _measure(self, run: Run, validator: Validator) -> tuple[float, dict[str, Any], Row, str] | None:
        """Return the monitored score, all scores, their columns in the logs, and their description; None after a signal."""

        def after_batch() -> None:
            if run.signals.pending:
                raise ValidationStopped
            advance()

        try:
            with self._reporter.validating(validator.num_batches) as advance:
                scores = validator.validate(after_batch=after_batch)
        except ValidationStopped:
            return None
        except RequestError as error:  # raised by validators only if scores are not finite
            raise not_finite(run, "output on dev") from error
        if not math.isfinite(scores.nll):
            raise not_finite(run, "loss on dev")
        plain, lines = scores.to_dict(), scores.lines(first=not run.progress.validations)
        text = "\n".join([f"dev {run.task.describe_scores(plain)}", *lines])
        return scores.monitored(run.config.training.monitor), plain, scores.to_row(run.task.columns), text


class Logging(Callback):
    """Write a row of the logs at each validation and every `LOGGED_EVERY` updates, to a CSV file and to trackers.

    After a resume, the logs continue from the rows of the checkpoint, so that there are no duplicates. Only the first of
    several processes writes.
    """

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._trackers: list[tuple[str, Tracker]] = []

    def open(self, run: Run) -> None:
        if not run.team.first:
            return
        path = run.folder.logs / "metrics.csv"
        with writing(path):
            run.folder.logs.mkdir(parents=True, exist_ok=True)
            kept = StringIO()
            before = csv.DictWriter(kept, run.columns)
            before.writeheader()
            before.writerows(run.history)
            disk.write(path, kept.getvalue())
            self._file = disk.open_ordinary(path, "a", newline="", encoding="utf-8")
            self._rows = csv.DictWriter(self._file, run.columns)
            if run.config.training.tensorboard:
                first = int(run.history[-1]["step"]) + 1 if run.history else 0
                self._trackers.append(("tensorboard", TensorBoard(run.folder.logs, first)))
            self._trackers += open_trackers(run.config, run.folder.logs)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # the disk is full, which was reported; `resume` writes the missing rows again
                self._file.close()
        for _, tracker in self._trackers:
            with suppress(Exception):  # the service is not reachable, which was reported
                tracker.close()

    def after_validation(self, run: Run, scores: dict[str, Any]) -> None:
        self._write(run, run.last_row if scores else {})

    def after_update(self, run: Run) -> None:
        progress = run.progress
        # An interrupted validation gets its row when it is repeated.
        if progress.recent_count and not progress.validation_due and progress.step % LOGGED_EVERY == 0:
            run.collect_losses()
            self._write(run, {})

    def _write(self, run: Run, scores: Row) -> None:
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
            row["train_nll"] = nll = progress.recent_loss / progress.recent_count
            if "train_perplexity" in run.task.columns:
                row["train_perplexity"] = math.exp(min(nll, 700.0))
        row |= scores
        run.history.append(row)
        progress.recent_loss, progress.recent_count = 0.0, 0
        if self._file is None:
            return
        with writing(run.folder.logs / "metrics.csv"):
            self._rows.writerow(row)
            self._file.flush()
            for name, tracker in list(self._trackers):
                try:
                    tracker.log(finite_values(row), progress.step)
                except Exception as error:
                    if isinstance(tracker, TensorBoard):  # the disk is full
                        raise
                    self._trackers.remove((name, tracker))
                    run.say(f"tracking by {name} has ended, and training continues without it: {one_line(str(error))}")


class Checkpointing(Callback):
    """Write checkpoints after each epoch, every `checkpoint_every` updates, at the end, and after a signal.

    After a signal, it raises `Interrupted` once the checkpoint is written.
    """

    def start(self, run: Run) -> None:
        if run.signals.received or run.progress.finished:
            self._save(run)

    def after_update(self, run: Run) -> None:
        progress, every = run.progress, run.config.training.checkpoint_every
        due = not progress.batch or progress.finished or (every and progress.step % every == 0)
        if due or run.signals.received:
            self._save(run)

    def _save(self, run: Run) -> None:
        run.collect_losses(weights=True)
        run.lap("validation_seconds")
        run.folder.save_checkpoint(run.state_dict(), keep=run.progress.scores)
        if run.signals.received is not None:
            raise Interrupted(
                f"stopped after update {run.progress.step:,} of {run.total_steps:,}; "
                f"continue with: regard resume {run.folder.path}",
                signal_number=run.signals.received,
            )


def write_bundle(run: Run, scores: dict[str, Any]) -> None:
    """Write the current model with its scores to the run's folder."""
    run.team.broadcast(lambda: save_bundle(run.folder.path, run.task.bundle(run.signature(scores))))
