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
def working(description: str) -> Iterator[None]:
    """Show a bar that moves and the time so far, as `late_bars` does, for work that cannot be counted."""
    with late_bars(shown=True, counted=False) as bars:
        bars.add_task(description, total=None)
        yield


@contextmanager
def late_bars(*, shown: bool, counted: bool = True) -> "Iterator[Progress]":
    """Show progress bars on standard error if it is a terminal and the `with` block takes long; remove them at the end.

    Args:
        shown: If False, no bars are shown.
        counted: Whether to show counts and the remaining time; otherwise the time so far.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from regard.console import SafeConsole

    console = SafeConsole(stderr=True)
    numbers = (MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True)) if counted else (TimeElapsedColumn(),)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *numbers,
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )
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
