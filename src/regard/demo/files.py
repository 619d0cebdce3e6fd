"""Files that the built-in corpora are written to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from regard import disk
from regard.errors import DataError


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that takes its name when it is complete, and leaves nothing when it is not.

    Raises:
        DataError: If it cannot be written.
    """
    try:
        with disk.whole_text(path) as file:
            yield file
    except OSError as error:
        raise DataError(
            f"the built-in corpus cannot be written to {path}: {error.strerror or error}; name a file in a folder that exists, "
            "is writable and has free space"
        ) from error
