"""Progress reports of a run: bars in a terminal, a bar and curves in a notebook, plain lines elsewhere, or nothing.

Reports go to standard error. In a notebook they go to standard output, because notebooks show standard error as red blocks.
IPython is imported only if its kernel is already running, so regard works without it.
"""

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
from regard.training.run import Run


class Reporter:
    """Base class of reporters; it prints nothing."""

    def __init__(self) -> None:
        self.pace = Pace()

    def say(self, text: str) -> None:
        """Print one or more lines."""

    def start(self, run: Run) -> None:
        """Start measuring the speed, and showing progress."""
        self.pace.start(run)

    def update(self, run: Run) -> None:
        """Show the progress after an update."""

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
        """Show the progress of a validation; call the yielded function after each of its `total` batches."""
        yield lambda: None

    def stop(self) -> None:
        """Stop showing progress."""


class Lines(Reporter):
    """A reporter that prints a line from time to time."""

    def __init__(self, stream: TextIO | None = None, *, every: float = 30.0) -> None:
        """Print to `stream` (standard error if None), with at most one line of progress in `every` seconds."""
        super().__init__()
        self._stream, self._every = stream or sys.stderr, every
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Print one or more lines."""
        show(text, file=self._stream, flush=True)

    def start(self, run: Run) -> None:
        """Start measuring the speed."""
        super().start(run)
        self._last = time.monotonic()

    def update(self, run: Run) -> None:
        """Print a line if enough time has passed since the last one."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            step, total = run.progress.step, run.total_steps
            self.say(f"epoch {run.epoch:,}, update {step:,} of {total:,}, {self.pace.describe(run)}")


class Bars(Reporter):
    """A reporter that shows a bar for the run and one for the epoch."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._bars: Progress | None = None
        self._epochs = self._updates = TaskID(0)

    def say(self, text: str) -> None:
        """Print lines above the bars."""
        self._console.print(Text(text), soft_wrap=True)

    def start(self, run: Run) -> None:
        """Show the bars."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[note]}"),
        )
        super().start(run)
        self._bars = Progress(*columns, console=self._console, transient=True, refresh_per_second=4)
        self._epochs = self._bars.add_task("epochs ", total=run.num_epochs, note="")
        self._updates = self._bars.add_task("updates", total=run.epoch_steps, note="")
        self._bars.start()
        self.update(run)

    def update(self, run: Run) -> None:
        """Update the bars."""
        if self._bars is not None:
            progress, accumulate = run.progress, run.config.training.accumulate
            note = self.pace.describe(run)
            self._bars.update(self._epochs, completed=progress.step / run.epoch_steps)
            self._bars.update(self._updates, completed=-(-progress.batch // accumulate), note=note)

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
        """Show a third bar, for the batches of a validation."""
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
        """Remove the bars."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


class Pace:
    """Speed and remaining time, measured in this process.

    The first updates prepare kernels and memory, so they are not measured once more follow.
    """

    def __init__(self) -> None:
        self._first = 0
        self._from = (0, 0, 0.0)
        self._told = False

    def start(self, run: Run) -> None:
        """Start measuring."""
        progress = run.progress
        self._first, self._from = progress.step, (progress.step, progress.count, progress.seconds)

    def update(self, run: Run) -> str:
        """Note an update; return, once, a sentence such as `training takes about 12 minutes on this machine (2 threads); …`."""
        progress = run.progress
        if progress.step == self._first + _WARM_UP:
            self._from = progress.step, progress.count, progress.seconds
        passed, made = progress.seconds - self._from[2], progress.step - self._from[0]
        if self._told or progress.step <= self._first + _WARM_UP or passed < _ENOUGH:
            return ""
        self._told = True
        seconds = passed / made * (run.total_steps - progress.step)
        minutes, machine = run.config.training.max_minutes, run.machine
        seconds = min(seconds, 60 * minutes) if minutes else seconds
        threads = f"{machine.threads} thread{'s' * (machine.threads != 1)}"
        where = threads if machine.device.type == "cpu" else str(machine.device)
        return f"training takes {_spell(seconds)} on this machine ({where}); validation takes a little more time"

    def describe(self, run: Run) -> str:
        """Return the speed and the remaining time, such as `8,300 target tokens/s, 1:05 left`."""
        progress, (step, count, seconds) = run.progress, self._from
        passed, made = progress.seconds - seconds, progress.step - step
        if not made or passed <= 0:
            return ""
        speed = (progress.count - count) / passed
        return f"{speed:,.0f} {run.task.unit}/s, {clock_time((run.total_steps - progress.step) * passed / made)} left"


_WARM_UP, _ENOUGH = 3, 5.0
"""Number of updates before the measurement, and seconds that it takes."""


def clock_time(seconds: float) -> str:
    """Return a time as minutes and seconds, `1:05`, or with hours, `2:01:05`."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _spell(seconds: float) -> str:
    if seconds < 45:
        return "less than a minute"
    minutes = seconds / 60
    if minutes < 90:
        return f"about {max(round(minutes), 1)} minute{'s' * (round(minutes) > 1)}"
    hours = minutes / 60
    return f"about {hours:.1f} hours" if hours < 24 else f"about {hours / 24:.1f} days"


_BAR_EVERY, _CURVES_EVERY = 0.5, 3.0
"""Seconds between two updates of the bar, and of the curves, which take longer to draw."""
_DPI = 100.0
_BAR = (
    '<div style="font-family:monospace;white-space:pre-wrap">'
    '<progress max="{total}" value="{done}" style="width:18em;vertical-align:middle"></progress> {words}</div>'
)


def in_notebook() -> bool:
    """Return True if the code runs in a kernel of IPython, which shows pictures and HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Notebook(Reporter):
    """A reporter for notebooks: a progress bar, and below it the curves of loss and scores over the updates so far."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = self._curves = None
        self._run: Run | None = None
        self._note = ""
        self._drawn = 0
        self._bar_at = self._curves_at = float("-inf")

    def say(self, text: str) -> None:
        """Print to standard output."""
        show(text, flush=True)

    def start(self, run: Run) -> None:
        """Show the bar, and reserve space for the curves."""
        from IPython.display import HTML, display

        super().start(run)
        self._run = run
        self._bar = display(HTML(_render(run, "")), display_id=True)
        self._curves = display(HTML(""), display_id=True)
        self._show_curves()

    def update(self, run: Run) -> None:
        """Update the bar, and the curves if the logs have a new row, each at most once in `_BAR_EVERY` or `_CURVES_EVERY` s."""
        now = time.monotonic()
        if now - self._bar_at >= _BAR_EVERY:
            self._bar_at = now
            self._show_bar()
        if now - self._curves_at >= _CURVES_EVERY:
            self._show_curves()

    @contextmanager
    def validating(self, total: int) -> Iterator[Callable[[], None]]:
        """Show the progress of the validation beside the bar."""
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if time.monotonic() - self._bar_at >= _BAR_EVERY:
                self._bar_at, self._note = time.monotonic(), f", validating {done:,} of {total:,}"
                self._show_bar()

        try:
            yield advance
        finally:
            self._note = ""

    def stop(self) -> None:
        """Show the final state, which stays visible."""
        self._show_bar()
        self._show_curves()
        self._bar = self._curves = self._run = None

    def _show_bar(self) -> None:
        if self._bar is not None and self._run is not None:
            from IPython.display import HTML

            self._bar.update(HTML(_render(self._run, self.pace.describe(self._run) + self._note)))

    def _show_curves(self) -> None:
        run = self._run
        if self._curves is None or run is None or len(run.history) == self._drawn:
            return
        self._curves_at, self._drawn = time.monotonic(), len(run.history)
        picture = _draw(run)
        if picture is not None:
            from IPython.display import Image

            self._curves.update(Image(data=picture, format="png"))


def _render(run: Run, words: str) -> str:
    step, total = run.progress.step, run.total_steps
    text = f"epoch {run.epoch:,}, update {step:,} of {total:,}{f', {words}' if words else ''}"
    return _BAR.format(total=total, done=step, words=escape(text))


def _draw(run: Run) -> bytes | None:
    """Return the curves of a run as PNG; None while there is nothing to draw."""
    from regard.viz.curves import draw

    names = dict.fromkeys(name for row in run.history for name in row)
    columns: dict[str, Any] = {name: [row.get(name) for row in run.history] for name in names}
    try:
        picture = draw({str(run.folder.path): columns})
    except RegardError:  # for example, there is no finite number yet; training continues
        return None
    picture.set_dpi(_DPI)
    return picture._repr_png_()


def build_reporter(*, progress: bool) -> Reporter:
    """Build a reporter: bars in a terminal, a bar and curves in a notebook, lines elsewhere; silent without `progress`."""
    if not progress:
        return Reporter()
    if in_notebook():
        return Notebook()
    console = SafeConsole(stderr=True)
    return Bars(console) if console.is_terminal else Lines()
