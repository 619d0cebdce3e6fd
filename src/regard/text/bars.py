"""Progress bars on standard error for long operations."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER = 2.0
"""Number of seconds after which a bar is shown."""


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is being done, as `late_bars` does, where nothing can be counted."""
    with late_bars(shown=True) as bars:
        bars.add_task(what, total=None)
        yield


@contextmanager
def late_bars(*, shown: bool) -> "Iterator[Progress]":
    """Show progress bars on standard error if it is a terminal and the `with` block takes long; remove them at the end.

    Args:
        shown: If False, no bars are shown.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from regard.console import SafeConsole

    console = SafeConsole(stderr=True)
    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), left)
    bars = Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
    timer = threading.Timer(SHOWN_AFTER, bars.start)
    timer.daemon = True
    if not bars.disable:
        timer.start()
    try:
        yield bars
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()  # the timer may be showing the bars now; then they are stopped below
        if bars.live.is_started:
            bars.stop()
