"""The format of a file, by its name and its first bytes."""

import json
from pathlib import Path

from regard.text.files.opening import open_bytes, open_utf8

FORMS = {
    "tsv": "tab-separated",
    "csv": "comma-separated",
    "jsonl": "JSON lines",
    "fast_align": "separated by |||",
    "parquet": "Parquet",
    "text": "parallel text",
}
ENDINGS = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"} | {
    ".parquet": "parquet",
    ".pq": "parquet",
}


def detect_table(path: Path, encoding: str = "auto") -> str:
    """Return the format of a table, found from its name and first bytes; `tsv` by default.

    Args:
        path: The file.
        encoding: Its encoding, or `auto`.

    Raises:
        DataError: If the file cannot be read.
    """
    with open_bytes(path) as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    by_name = ENDINGS.get(ending(path))
    if by_name:
        return by_name
    start = read_start(path, encoding).lstrip()
    first = start.split(b"\n", 1)[0]
    if start.startswith(b"[") and start[1:].lstrip().startswith(b"{"):
        return "jsonl"
    return "jsonl" if first.startswith(b"{") and (b"\t" not in first or _is_json(first)) else "tsv"


def read_start(path: Path, encoding: str) -> bytes:
    """Return the first 64 KiB of a file, as UTF-8."""
    with open_utf8(path, encoding) as file:
        return file.read(1 << 16)


def without_gz(name: str) -> str:
    """Return a file's name without an ending `.gz`, in upper or lower case."""
    return name[:-3] if name.lower().endswith(".gz") else name


def ending(path: str | Path) -> str:
    """Return the last ending of a file's name in lower case, leaving out `.gz`; empty if the name has no ending."""
    return Path(without_gz(str(path))).suffix.lower()


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
