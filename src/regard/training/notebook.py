"""Display of a run in a notebook: a progress bar and curves that are updated in place, and text on standard output.

Standard error is not used, because notebooks show it as red blocks. IPython is imported only if its kernel is already running,
so regard works without it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from regard.errors import RegardError
from regard.training.progress import Pace, Reporter
from regard.training.run import Run

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
    """A progress bar, and below it the curves of loss and scores so far, by update."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._bar = self._curves = None
        self._run: Run | None = None
        self._note = ""
        self._drawn = 0
        self._bar_at = self._curves_at = float("-inf")

    def say(self, text: str) -> None:
        """Print to standard output."""
        print(text, flush=True)

    def start(self, run: Run) -> None:
        """Show the bar, and reserve space for the curves."""
        from IPython.display import HTML, display

        self._pace.start(run)
        self._run = run
        self._bar = display(HTML(_render(run, "")), display_id=True)
        self._curves = display(HTML(""), display_id=True)
        self._show_curves()

    def update(self, run: Run) -> None:
        """Update the bar, and the curves if there is a new row, but not more often than a reader can follow."""
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

            self._bar.update(HTML(_render(self._run, self._pace.describe(self._run) + self._note)))

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
        return draw({str(run.folder.path): columns}, dpi=_DPI)._repr_png_()
    except RegardError:  # for example, there is no finite number yet; training goes on
        return None
