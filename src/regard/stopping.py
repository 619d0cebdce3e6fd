"""Stop a long computation between two steps. Searches and loops over batches call `check_wanted` after each step."""

from collections.abc import Callable
from contextvars import ContextVar

is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)
"""Function that returns False once nobody waits for the result of this thread's computation."""


class Stopped(Exception):
    """A computation ended early because nobody waits for its result."""


def check_wanted() -> None:
    """Raise `Stopped` if nobody waits for the result of the running computation."""
    if not is_wanted.get()():
        raise Stopped
