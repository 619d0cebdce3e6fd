"""Read records from files."""

from pathlib import Path

from regard.errors import DataError, RequestError, nearest
from regard.records import encoding
from regard.records.data import AttentionRecord


def load_record(path: str | Path) -> AttentionRecord:
    """Read a record from a .json or .npz file.

    Args:
        path: A file that `AttentionRecord.save` wrote.

    Raises:
        RequestError: If the file has another ending.
        DataError: If the file cannot be read, is too large, or contains no record.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".json", ".npz"):
        raise RequestError(
            f"{path}: records are read from .json and .npz files, not from '{ending}'{nearest(ending, ('.json', '.npz'))}"
        )
    try:
        with open(path, "rb") as file:
            content = file.read(encoding.MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: the record cannot be read: {error.strerror}") from error
    if len(content) > encoding.MAX_BYTES:
        raise DataError(f"{path}: the file has more than {encoding.MAX_BYTES} bytes, too many for a record")
    read = AttentionRecord.from_json if ending == ".json" else AttentionRecord.from_npz
    return read(content, where=str(path))
