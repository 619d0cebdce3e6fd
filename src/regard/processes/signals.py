"""Ctrl-C and SIGTERM during training: noted, and acted upon between two updates, in all processes at once."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from regard import terminal
from regard.processes.team import Team


class Signals:
    """While entered, notes the first SIGINT or SIGTERM, and lets a second end the process at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        """Number of the signal that came."""
        self._before: dict[int, Any] = {}

    @property
    def pending(self) -> int | None:
        """The signal that came to this process."""
        return self.received

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            terminal.write_now("\n" if sys.stderr.isatty() else "")
            os._exit(128 + number)
        self.received = number
        terminal.write_now("\nstopping: saving a checkpoint (once more to stop at once)\n", show_cursor=False)


class AgreedSignals(Signals):
    """Signals that all processes know of, so that all act upon them between the same two updates.

    Args:
        noted: The signals that came to this process.
        team: The processes that have to agree.
    """

    def __init__(self, noted: Signals, team: Team) -> None:
        super().__init__()
        self.team, self._noted = team, noted

    @property
    def pending(self) -> int | None:
        """A signal that came to this process, even if the others do not know of it yet."""
        return self.received or self._noted.pending

    def agree(self, *, finished: bool = False) -> bool:
        """Let all processes know of what came to any; all of them call this.

        Returns:
            Whether `finished` is True in any process.
        """
        signal, over = self.team.largest(self.pending or 0, int(finished))
        self.received = signal or None
        return bool(over)
