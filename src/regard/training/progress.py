"""Progress reports of a run: bars in a terminal, a bar and curves in a notebook, plain lines elsewhere, or nothing.

Reports go to standard error. In a notebook they go to standard output, because notebooks show standard error as red blocks.
IPython is imported only if its kernel is already running, so regard works without it.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from regard.console import SafeConsole
from regard.errors import RegardError
from regard.terminal import show
from regard.training.run import Callback, Run

# Number of updates before the speed is measured, and seconds after which the time of the run is estimated.
_WARM_UP, _ENOUGH = 3, 5.0


class Reporter(Callback):
    """Callback that measures the speed of training; subclasses also show it. It prints nothing."""

    def __init__(self) -> None:
        self._first, self._start = 0, 0.0  # updates and seconds of training before this process
        self._from = (0, 0, 0.0)  # updates, items and seconds at the beginning of the measurement
        self._estimated = False

    def say(self, text: str) -> None:
        """Print one or more lines."""

    def start(self, run: Run) -> None:
        """Start measuring the speed; the first updates, which prepare kernels and memory, are left out once more follow."""
        progress = run.progress
        self._first, self._from = progress.step, (progress.step, progress.count, progress.seconds)
        self._start = progress.seconds
        run.lap("validation_seconds")

    def after_update(self, run: Run) -> None:
        """Show the progress, and print an estimate of the run's time once."""
        progress = run.progress
        if progress.step == self._first + _WARM_UP:
            self._from = progress.step, progress.count, progress.seconds
        step, count, seconds = self._from
        passed, made = progress.seconds - seconds, progress.step - step
        words = ""
        if made and passed > 0:
            left = min((run.total_steps - progress.step) * passed / made, _time_limit(run) - run.progress.seconds_used)
            words = f"{(progress.count - count) / passed:,.0f} {run.task.unit}/s, {clock_time(left)} left"
            spent = progress.seconds - self._start
            measured = progress.step > self._first + _WARM_UP and passed >= _ENOUGH
            # Near the end of a short run, an estimate of its time would come too late to be of use.
            if not self._estimated and measured and spent < left:
                self._estimated = True
                self.say(describe_time(run, spent + left))
        self.show(run, words)
        run.lap("validation_seconds")

    def show(self, run: Run, speed: str) -> None:
        """Show the progress; `speed` has the speed and the remaining time, and is empty before they are known."""

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
        """Show the progress of a validation; call the yielded function after each of its `total` batches."""
        yield lambda: None

    def stop(self) -> None:
        """Stop showing progress."""


class SeveralRuns(Callback):
    """Callback that reports once how long several runs of similar length take in total, and then how much time is left.

    Args:
        say: Function that prints a line.
        runs: Number of the runs.
        further: Time of what follows the runs, in units of a run.
        every: Minimum time in seconds between two lines.
    """

    def __init__(self, say: Callable[[str], None], runs: int, *, further: float = 0.0, every: float = 30.0) -> None:
        self._say, self._runs, self._total, self._every = say, runs, runs + further, every
        self._began = self._last = time.monotonic()
        self._done = 0

    def after_update(self, run: Run) -> None:
        share = max(run.progress.step / run.total_steps, run.progress.seconds_used / _time_limit(run))
        now, made = time.monotonic(), self._done + share
        left = (now - self._began) * (self._total / made - 1)
        if self._last == self._began and now - self._began >= _ENOUGH:
            self._last = now
            final = " and the training of the final model" if self._total > self._runs else ""
            self._say(f"  all {self._runs} models{final} take {describe_duration(left + now - self._began)}")
        elif self._last > self._began and now - self._last >= self._every:
            self._last = now
            self._say(
                f"  model {self._done + 1} of {self._runs}, {made / self._total:.0%} of the whole, {clock_time(left)} left"
            )

    def end(self, run: Run) -> None:
        self._done += 1


class Lines(Reporter):
    """A reporter that prints lines to a file, by default to standard error, at least `every` seconds apart."""

    def __init__(self, stream: TextIO | None = None, *, every: float = 30.0) -> None:
        super().__init__()
        self._stream, self._every = stream or sys.stderr, every
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        show(text, file=self._stream, flush=True)

    def show(self, run: Run, speed: str) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self.say(f"{position(run)}, {speed}")


class Bars(Reporter):
    """A reporter that shows a bar for the run and one for the epoch."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._bars: Progress | None = None
        self._epochs = self._updates = TaskID(0)

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def start(self, run: Run) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[note]}"),
        )
        self._bars = Progress(*columns, console=self._console, transient=True, refresh_per_second=4)
        self._epochs = self._bars.add_task("epochs ", total=run.total_steps / run.epoch_steps, note="")
        self._updates = self._bars.add_task("updates", total=run.epoch_steps, note="")
        self._bars.start()
        self.show(run, "")
        super().start(run)

    def show(self, run: Run, speed: str) -> None:
        if self._bars is not None:
            accumulate = run.config.training.accumulate
            self._bars.update(self._epochs, completed=run.progress.step / run.epoch_steps)
            self._bars.update(self._updates, completed=-(-run.progress.batch // accumulate), note=speed)

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
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
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


# Seconds between two updates of the bar, and of the curves, which take longer to draw.
_BAR_EVERY, _CURVES_EVERY = 0.5, 3.0
_BAR = (
    '<div style="font-family:monospace;white-space:pre-wrap">'
    '<progress max="{total}" value="{done}" style="width:18em;vertical-align:middle"></progress> {words}</div>'
)


class Notebook(Reporter):
    """A reporter for notebooks: a progress bar, and below it the curves of loss and scores over the updates so far."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None
        self._curves: Any = None
        self._shown: tuple[Run, str] | None = None
        self._rows = 0  # number of drawn rows of the logs
        self._bar_at = self._curves_at = float("-inf")

    def say(self, text: str) -> None:
        show(text, flush=True)

    def start(self, run: Run) -> None:
        from IPython.display import HTML, display

        self._bar, self._curves = (display(HTML(""), display_id=True) for _ in range(2))
        self.show(run, "")
        super().start(run)

    def show(self, run: Run, speed: str, note: str = "") -> None:
        """Update the bar, and the curves if the logs have a new row, each at most once in `_BAR_EVERY` or `_CURVES_EVERY` s."""
        from IPython.display import HTML, Image

        now, self._shown = time.monotonic(), (run, speed)
        if self._bar is not None and now - self._bar_at >= _BAR_EVERY:
            self._bar_at = now
            words = ", ".join(filter(None, (position(run), speed, note)))
            self._bar.update(HTML(_BAR.format(total=run.total_steps, done=run.progress.step, words=escape(words))))
        if self._curves is not None and len(run.history) != self._rows and now - self._curves_at >= _CURVES_EVERY:
            self._curves_at, self._rows = now, len(run.history)
            if (picture := _draw(run)) is not None:
                self._curves.update(Image(data=picture, format="png"))

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if self._shown is not None:
                self.show(*self._shown, f"validating {done:,} of {total:,}")

        yield advance

    def stop(self) -> None:
        self._bar_at = self._curves_at = float("-inf")
        if self._shown is not None:
            self.show(*self._shown)
        self._bar = self._curves = self._shown = None


def position(run: Run) -> str:
    """Return the epoch and the update of a run, such as `epoch 2, update 1,300 of 8,000`."""
    return f"epoch {run.epoch:,}, update {run.progress.step:,} of {run.total_steps:,}"


def clock_time(seconds: float) -> str:
    """Return a time as minutes and seconds, `1:05`, or with hours, `2:01:05`."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _time_limit(run: Run) -> float:
    """Return `training.max_minutes` in seconds; infinite without a limit."""
    return 60 * run.config.training.max_minutes or math.inf


def describe_time(run: Run, seconds: float) -> str:
    """Return an estimate of the time, such as `training takes about 12 minutes on this machine (2 threads); …`."""
    machine = run.machine
    threads = f"{machine.threads} thread{'s' * (machine.threads != 1)}"
    where = threads if machine.device.type == "cpu" else str(machine.device)
    return f"training takes {describe_duration(seconds)} on this machine ({where}); validation takes a little more time"


def describe_duration(seconds: float) -> str:
    """Return a duration in words, such as `about 12 minutes`."""
    minutes = seconds / 60
    if minutes < 0.75:
        return "less than a minute"
    if minutes < 90:
        return f"about {max(round(minutes), 1)} minute{'s' * (round(minutes) > 1)}"
    return f"about {minutes / 60:.1f} hours" if minutes < 24 * 60 else f"about {minutes / 60 / 24:.1f} days"


def _draw(run: Run) -> bytes | None:
    """Return the curves of a run as PNG; None while there is nothing to draw."""
    from regard.viz.curves import draw

    names = dict.fromkeys(name for row in run.history for name in row)
    columns: dict[str, Any] = {name: [row.get(name) for row in run.history] for name in names}
    try:
        picture = draw({str(run.folder.path): columns})
    except RegardError:  # for example, there is no finite number yet; training continues
        return None
    picture.set_dpi(100)
    return picture._repr_png_()


def in_notebook() -> bool:
    """Return True if the code runs in a kernel of IPython, which shows pictures and HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def build_reporter(*, progress: bool) -> Reporter:
    """Build the reporter for this process; it is silent without `progress`."""
    if not progress:
        return Reporter()
    if in_notebook():
        return Notebook()
    console = SafeConsole(stderr=True)
    return Bars(console) if console.is_terminal else Lines()
