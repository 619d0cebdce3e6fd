"""Progress reports of a run: bars in a terminal, plain lines elsewhere, or nothing. They go to standard error.

For notebooks, see `notebook.py`; `reporters.py` chooses.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from regard.training.run import Run


class Reporter:
    """Says nothing; the base of those that do."""

    def say(self, text: str) -> None:
        """Print a line or more."""

    def start(self, run: Run) -> None:
        """Begin to show progress."""

    def update(self, run: Run) -> None:
        """Show the progress after an update."""

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
        """Show the progress of a validation; the callable is called after each of its `total` batches."""
        yield lambda: None

    def stop(self) -> None:
        """Show progress no longer."""


class Lines(Reporter):
    """Now and then a line."""

    def __init__(self, stream: TextIO | None = None, *, every: float = 30.0) -> None:
        """Print to `stream`, standard error if None, no more often than `every` seconds."""
        self._stream, self._every = stream or sys.stderr, every
        self._pace = Pace()
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line or more."""
        print(text, file=self._stream, flush=True)

    def start(self, run: Run) -> None:
        """Begin to measure the speed."""
        self._pace.start(run)
        self._last = time.monotonic()

    def update(self, run: Run) -> None:
        """Print a line if the last was long ago."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            step, total = run.progress.step, run.total_steps
            self.say(f"epoch {run.epoch:,}, update {step:,} of {total:,}, {self._pace.describe(run)}")


class Bars(Reporter):
    """A bar for the run's updates and one for the epoch's."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace = Pace()
        self._bars: Progress | None = None
        self._epochs = self._updates = TaskID(0)

    def say(self, text: str) -> None:
        """Print above the bars."""
        self._console.print(Text(text), soft_wrap=True)

    def start(self, run: Run) -> None:
        """Show the bars."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[note]}"),
        )
        self._pace.start(run)
        self._bars = Progress(*columns, console=self._console, transient=True, refresh_per_second=4)
        self._epochs = self._bars.add_task("epochs ", total=run.num_epochs, note="")
        self._updates = self._bars.add_task("updates", total=run.epoch_steps, note="")
        self._bars.start()
        self.update(run)

    def update(self, run: Run) -> None:
        """Move the bars."""
        if self._bars is not None:
            progress, accumulate = run.progress, run.config.training.accumulate
            note = self._pace.describe(run)
            self._bars.update(self._epochs, completed=progress.step / run.epoch_steps)
            self._bars.update(self._updates, completed=-(-progress.batch // accumulate), note=note)

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
        """Show a third bar."""
        if self._bars is None:
            yield lambda: None
            return
        bars, task = self._bars, self._bars.add_task("dev    ", total=total, note="validating")
        bars.refresh()
        try:
            yield lambda: bars.advance(task)
        finally:
            bars.remove_task(task)

    def stop(self) -> None:
        """Take the bars away."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


class Pace:
    """Speed and time left, from what this process has seen of a run."""

    def __init__(self) -> None:
        self._from = (0, 0, 0.0)

    def start(self, run: Run) -> None:
        """Begin to measure."""
        progress = run.progress
        self._from = progress.step, progress.count, progress.seconds

    def describe(self, run: Run) -> str:
        """`8,300 target tokens/s, 1:05 left`."""
        progress, (step, count, seconds) = run.progress, self._from
        passed, made = progress.seconds - seconds, progress.step - step
        if not made or passed <= 0:
            return ""
        speed = (progress.count - count) / passed
        return f"{speed:,.0f} {run.task.unit}/s, {clock_time((run.total_steps - progress.step) * passed / made)} left"


def clock_time(seconds: float) -> str:
    """`1:05`, or with hours `2:01:05`."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
