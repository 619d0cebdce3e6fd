"""What has to be on the disk before something else may rely on it."""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Have a file, or a folder's list of names, written to the disk itself."""
    if os.name == "nt" and path.is_dir():
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
