"""Records as JSON and NPZ. Files are not trusted, and nothing is pickled.

This module converts the fields of a record, as a dict, to bytes and back. `AttentionRecord` checks their values.
"""

import io
import json
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.errors import DataError, RegardError

MAX_BYTES = 256 * 2**20
"""Maximum size of a file in bytes, before and after unpacking."""

Fields = Mapping[str, Any]
"""The fields of a record by name. `weights` maps sites to matrices; all other values are JSON values."""


def to_json(fields: Fields) -> str:
    """Return the fields as JSON; letters such as "ä" are not escaped."""
    data = {**fields, "weights": {site: _lists(array) for site, array in fields["weights"].items()}}
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
    """Return the fields as NPZ.

    The array `record` contains the bytes of a JSON object with all fields; its `weights` is the list of the sites' names. The
    arrays `weights.0`, `weights.1`, … are the matrices of these sites.
    """
    texts = json.dumps({**fields, "weights": list(fields["weights"])})
    arrays = {f"weights.{number}": array for number, array in enumerate(fields["weights"].values())}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, record=np.frombuffer(texts.encode(), np.uint8), **arrays)
    return buffer.getvalue()


def from_npz(content: bytes, where: str) -> Any:
    """Read fields from NPZ. Sizes are checked before anything is unpacked, and pickled data are rejected."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
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


def _lists(array: np.ndarray) -> Any:
    # Write the shortest text of each float32: 0.1 is written as 0.1, not 0.10000000149011612, and is read as the same float32.
    return array.astype(str).astype(float).tolist()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a valid number in JSON")


def _array(archive: zipfile.ZipFile, name: str, dtype: type) -> np.ndarray:
    """Return one array of the archive, after comparing the size in its header with the size of the data."""
    content = io.BytesIO(archive.read(f"{name}.npy"))
    version = np.lib.format.read_magic(content)
    if version != (1, 0):
        raise ValueError(f"{name} has npy version {version}, expected (1, 0)")
    shape, fortran, found = np.lib.format.read_array_header_1_0(content)
    rest = content.read()
    if fortran or found != np.dtype(dtype) or math.prod(shape) * found.itemsize != len(rest):
        raise ValueError(
            f"{name} has type {found}, shape {shape} and {len(rest)} bytes, expected type {np.dtype(dtype)} in C order, and as "
            "many bytes as its shape needs"
        )
    return np.frombuffer(rest, dtype).reshape(shape)
