"""Files that the built-in corpora are written to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from regard.errors import DataError


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that takes its name when it is complete, and leaves nothing when it is not."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        draft.replace(path)
    except OSError as error:
        raise DataError(
            f"the built-in corpus cannot be written to {path}: {error.strerror or error}; name a file in a folder that exists, "
            "may be written to and has room"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
