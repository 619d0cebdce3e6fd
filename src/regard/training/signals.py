"""Ctrl-C and SIGTERM during training: noted, and acted upon between two updates."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self


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
        # Straight to the descriptor: whatever prints may be in the middle of printing.
        if self.received is not None:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h\n")  # progress bars had hidden the cursor
            os._exit(128 + number)
        self.received = number
        os.write(2, b"\nstopping: saving a checkpoint (once more to stop at once)\n")
