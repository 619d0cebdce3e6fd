"""Ends a process by SIGKILL at one of its operations on files.

Python reads a file of this name at its very start where it is on the path: so a command dies wherever it is told to, without
knowing of it. `REGARD_TESTS_DEATH` is `number:folder`: at the so manieth operation on what lies in the folder.
"""

import os
import signal
import sys
from collections.abc import Callable

OPERATIONS = frozenset(("open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.rmdir", "shutil.rmtree"))


def count_down(moments: int, folder: str) -> Callable[[], None]:
    """Die at so many moments: operations on what lies in the folder, and calls of what is returned."""
    left = moments

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event in OPERATIONS and folder in str(arguments[0]):
            count()

    sys.addaudithook(heard)
    return count


if "REGARD_TESTS_DEATH" in os.environ:
    _number, _, _folder = os.environ.pop("REGARD_TESTS_DEATH").partition(":")
    count_down(int(_number), _folder)
