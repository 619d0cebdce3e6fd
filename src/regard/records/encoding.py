"""Records as JSON and NPZ. Files are not trusted, and nothing is pickled.

This module converts the fields of a record, as a dict, to bytes and back, and checks that they are the fields of a record.
`AttentionRecord` checks their values.
"""

import io
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import DataError, RegardError, RequestError, nearest

MAX_BYTES = 256 * 2**20
"""Maximum size of a file in bytes, before and after unpacking."""

MAX_WORDS = 8192
"""Maximum length of each list of tokens, words or labels in a file. Views are matrices over words, so this also limits them."""
ADDED = {
    "probabilities": 2,
    "target_is_read": 3,
    "source_scheme": 4,
    "target_scheme": 4,
    "source_segments": 5,
    "target_segments": 5,
    "p_gen": 6,
}
"""Version of the format that added a field. A record that doesn't use these is written as version 1, for older readers."""
FORMAT_VERSION = max(ADDED.values())
"""The newest version of the file format."""

Fields = Mapping[str, Any]
"""The fields of a record by name. `weights` maps sites to matrices; all other values are JSON values."""


def _versioned(fields: Fields) -> dict[str, Any]:
    """Return the fields as files store them: the version first, the weights last, without fields that are not used."""
    used = {name: value for name, value in fields.items() if value or name not in ADDED}
    version = max(ADDED.get(name, 1) for name in used)
    for name in used.keys() & {"source_segments", "target_segments"}:
        used[name] = [segment.to_dict() for segment in used[name]]
    return {"format_version": version, **used, "weights": used.pop("weights")}


def to_json(fields: Fields) -> str:
    """Return the fields as JSON; letters such as "ä" are not escaped."""
    data = _versioned(fields)
    data["weights"] = {site: _lists(array) for site, array in data["weights"].items()}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8 form
        return json.dumps(data, allow_nan=False)
    return text


def from_json(text: str | bytes, where: str) -> Any:
    """Read fields from JSON; `where` is the prefix of error messages."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is not JSON: {error or 'nested too deeply'}") from error


def to_npz(fields: Fields) -> bytes:
    """Return the fields as NPZ."""
    # The array `record` contains the bytes of a JSON object with all fields; its `weights` is the list of the sites' names. The
    # arrays `weights.0`, `weights.1`, … are the matrices of these sites.
    texts = json.dumps({**_versioned(fields), "weights": list(fields["weights"])})
    arrays = {f"weights.{number}": array for number, array in enumerate(fields["weights"].values())}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, record=np.frombuffer(texts.encode(), np.uint8), **arrays)
    return buffer.getvalue()


def from_npz(content: bytes, where: str) -> Any:
    """Read fields from NPZ. Sizes are checked before anything is unpacked, and pickled data are rejected."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            unpacked = sum(entry.file_size for entry in archive.zip.infolist())
            if unpacked > MAX_BYTES:
                raise DataError(f"{where}: it unpacks to {unpacked} bytes, expected at most {MAX_BYTES}")
            data = json.loads(_array(archive, "record", np.uint8).tobytes(), parse_constant=_refuse)
            sites = data.get("weights") if isinstance(data, dict) else None
            if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
                raise DataError(f"{where}: 'weights' must list the names of the sites")
            data["weights"] = {site: _array(archive, f"weights.{number}", np.float32) for number, site in enumerate(sites)}
    except RegardError:
        raise
    except Exception as error:  # zipfile, zlib, lzma and numpy raise many kinds of errors about damaged files
        raise DataError(f"{where}: this is not a record, or it is damaged: {error}") from error
    return data


def check_size(fields: Fields, path: Path, content: bytes) -> None:
    """Raise a `RequestError` if `load_record` would refuse a file with these fields and this content because of its size."""
    for name, value in fields.items():
        if isinstance(value, tuple | dict) and name != "weights" and len(value) > MAX_WORDS:
            raise RequestError(f"{path}: {name} has {len(value):,} entries, expected at most {MAX_WORDS:,}; save a picture")
    # An NPZ file is limited before and after unpacking; JSON is longer than the weights anyway.
    size = max(4 * sum(array.size for array in fields["weights"].values()), len(content))
    if size > MAX_BYTES:
        advice = "record fewer sites, or save as .npz" if path.suffix.lower() == ".json" else "record fewer sites"
        raise RequestError(f"{path}: the record needs {size:,} bytes, expected at most {MAX_BYTES:,}; {advice}")


def check_fields(data: object, where: str, known: Collection[str], needed: Collection[str]) -> dict[str, Any]:
    """Check the fields of a record from a file that is not trusted, and return them without the version."""
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected a JSON object with the fields of a record, got a {type(data).__name__}")
    content = dict(data)
    version = content.pop("format_version", None)
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise DataError(
            f"{where}: format_version is {version!r}, expected 1 to {FORMAT_VERSION}: either this is not a record, or a newer "
            "version of regard wrote it; then install that version"
        )
    for name in content.keys() - set(known):
        raise DataError(f"{where}: a record has no field {name!r}{nearest(name, known)}")
    if missing := sorted(set(needed) - content.keys()):
        raise DataError(f"{where}: the record lacks {', '.join(missing)}")
    for name, value in content.items():
        if name in ("source_text", "target_text", "note", "reference") and not isinstance(value, str):
            if name != "reference" or value is not None:
                raise DataError(f"{where}: {name} must be text, got {type(value).__name__}")
        elif name != "weights" and isinstance(value, list | dict) and len(value) > MAX_WORDS:
            raise DataError(f"{where}: {name} has {len(value)} entries, expected at most {MAX_WORDS}")
    return content


def _lists(array: np.ndarray) -> Any:
    # Write the shortest text of each float32: 0.1 is written as 0.1, not 0.10000000149011612, and is read as the same float32.
    return array.astype(str).astype(float).tolist()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a valid number in JSON")


def _array(archive: Mapping[str, np.ndarray], name: str, dtype: type) -> np.ndarray:
    array = archive[name]
    if array.dtype != dtype:  # a conversion would change the weights
        raise ValueError(f"{name} has type {array.dtype}, expected {np.dtype(dtype)}")
    return array
