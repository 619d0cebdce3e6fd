"""Progress bars on standard error, for what takes longer than a moment."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER = 2.0
"""Seconds of work after which it is worth a bar."""


@contextmanager
def late_bars(*, shown: bool) -> "Iterator[Progress]":
    """Bars that appear only when the work takes long, and only in a terminal; at its end they are taken away.

    Args:
        shown: Whether they are wanted at all.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
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
            timer.join()  # it may be about to show them
        if bars.live.is_started:
            bars.stop()
