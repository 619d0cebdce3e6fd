"""Ctrl-C and SIGTERM during training: all processes handle them between the same two updates."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from regard import terminal
from regard.processes.team import Team


class Signals:
    """Context that stores the first SIGINT or SIGTERM, for a whole team; a second one ends the process at once."""

    def __init__(self, team: Team) -> None:
        self.received: int | None = None
        """Number of the first signal that any process received, once all processes know it; None before."""
        self._team = team
        self._noted: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def pending(self) -> int | None:
        """Number of a signal that all processes know, or only this process so far; None while this process knows of none."""
        return self.received or self._noted

    def agree(self, *, finished: bool = False) -> bool:
        """Tell all processes about a signal that one of them received; every process must call this method.

        Return whether `finished` is True in any process.
        """
        number, over = self._team.largest(self.pending or 0, int(finished))
        self.received = number or None
        return bool(over)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only the main thread may set handlers
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted is not None:
            terminal.write_now("\n" if sys.stderr.isatty() else "")
            os._exit(128 + number)
        self._noted = number
        if self._team.ranks.alone:
            self.received = number
        terminal.write_now("\nstopping: saving a checkpoint (interrupt again to stop at once)\n", show_cursor=False)
