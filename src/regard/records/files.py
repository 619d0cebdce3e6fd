"""Records on disk: JSON and NPZ, read as data that a stranger may have written. Nothing is pickled."""

import io
import json
import math
import os
import zipfile
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import DataError, RegardError, RequestError, nearest
from regard.records.data import FORMAT_VERSION, AttentionRecord

MAX_BYTES = 256 * 2**20
"""Of a file, and of what a packed one unpacks to."""
MAX_WORDS = 8192
"""A side; views are matrices over words, so this bounds them too."""

_PICTURES = (".png", ".svg", ".pdf")
_ENDINGS = (".json", ".npz", *_PICTURES, ".html")
_FIELDS = {field.name: field for field in fields(AttentionRecord)}


def to_json(record: AttentionRecord) -> str:
    """The record as JSON, letters as they are."""
    data = _texts(record) | {"weights": {site: _lists(array) for site, array in record.weights.items()}}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair has no UTF-8 form
        return json.dumps(data, allow_nan=False)
    return text


def from_json(text: str | bytes, *, where: str = "from_json") -> AttentionRecord:
    """Read what `to_json` wrote; `where` is put before an error's message."""
    try:
        data = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is not JSON: {error or 'nested too deeply'}") from error
    return _build(data, where)


def to_npz(record: AttentionRecord) -> bytes:
    """The record as NPZ: `record` holds the texts as JSON bytes, `weights.0` and so on the matrices in the order of sites."""
    texts = json.dumps(_texts(record) | {"weights": list(record.sites)})
    arrays = {f"weights.{number}": array for number, array in enumerate(record.weights.values())}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, record=np.frombuffer(texts.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def from_npz(content: bytes, *, where: str = "from_npz") -> AttentionRecord:
    """Read what `to_npz` wrote. Sizes are checked before anything is unpacked, and nothing can be pickled in it."""
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
    except (zipfile.BadZipFile, zipfile.LargeZipFile, KeyError, ValueError, EOFError, RecursionError) as error:
        raise DataError(f"{where}: this is not a record, or it is damaged: {error}") from error
    except (NotImplementedError, RuntimeError, OSError) as error:  # encrypted, or packed in a way Python does not know
        raise DataError(f"{where}: this cannot be unpacked: {error}") from error
    except Exception as error:
        if isinstance(error, RegardError):
            raise
        raise DataError(f"{where}: this is damaged: {error}") from error  # zlib.error, lzma.LZMAError
    return _build(data, where)


def load_record(path: str | Path) -> AttentionRecord:
    """Read a record from a .json or .npz file.

    Raises:
        RequestError: If the file has another ending.
        DataError: If it cannot be read, is too large, or holds no record.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".json", ".npz"):
        raise RequestError(
            f"{path}: records are read from .json and .npz files, not from '{ending}'{nearest(ending, _ENDINGS[:2])}"
        )
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: the record cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path}: the file is larger than {MAX_BYTES} bytes, which no record is")
    return (from_json if ending == ".json" else from_npz)(content, where=str(path))


def save(
    record: AttentionRecord,
    path: str | Path,
    *,
    site: str | None = None,
    head: int | None = None,
    special: bool = False,
    caption: bool = True,
) -> None:
    """Write a record by the file's ending; see `AttentionRecord.save`."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise RequestError(
            f"{path}: cannot save as '{ending}', expected one of {' '.join(_ENDINGS)}{nearest(ending, _ENDINGS)}"
        )
    if ending == ".json":
        write_atomically(path, to_json(record).encode())
    elif ending == ".npz":
        write_atomically(path, to_npz(record))
    elif ending == ".html":
        from regard.viz import page

        write_atomically(path, page.render(record, special=special, caption=caption).encode())
    else:
        from regard.viz import drawing

        drawing.draw(record, path, site=site, head=head, special=special, caption=caption)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all.

    Raises:
        DataError: If it cannot be written; nothing is left behind.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        missing = "" if path.parent.is_dir() else f": there is no folder {path.parent}, make it first"
        raise DataError(f"{path}: cannot be written: {error.strerror}{missing}") from error


def _texts(record: AttentionRecord) -> dict[str, Any]:
    names = ["format_version", *(name for name in _FIELDS if name not in ("format_version", "weights"))]
    for name in ("probabilities", "target_is_read"):  # which format 1 does not have
        if not getattr(record, name):
            names.remove(name)
    return {name: getattr(record, name) for name in names}


def _lists(array: np.ndarray) -> Any:
    # Through float32's own shortest text: 0.1 stays 0.1, not 0.10000000149011612, and comes back as the same float32.
    return array.astype(str).astype(float).tolist()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number JSON has")


def _build(data: object, where: str) -> AttentionRecord:
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected a JSON object with the fields of a record, got a {type(data).__name__}")
    version = data.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise DataError(
            f"{where}: format_version is {version!r}, this regard reads 1 to {FORMAT_VERSION}: "
            "either this is not a record, or a newer regard wrote it"
        )
    for name in data.keys() - _FIELDS.keys():
        raise DataError(f"{where}: a record has no field {name!r}{nearest(name, _FIELDS)}")
    needed = {name for name, field in _FIELDS.items() if field.default is field.default_factory is MISSING}
    if missing := sorted(needed - data.keys()):
        raise DataError(f"{where}: the record lacks {', '.join(missing)}")
    for name in ("source_text", "target_text", "note", "reference"):
        if not isinstance(data.get(name, ""), str) and not (name == "reference" and data[name] is None):
            raise DataError(f"{where}: {name} must be text, got {type(data[name]).__name__}")
    for name in ("source_words", "target_words", "source_tokens", "target_tokens", "probabilities"):
        if isinstance(data.get(name), list | dict) and len(data[name]) > MAX_WORDS:
            raise DataError(f"{where}: {name} has {len(data[name])} entries, expected at most {MAX_WORDS}")
    try:
        return AttentionRecord(**data)
    except RegardError as error:
        raise DataError(f"{where}: {error}") from error


def _array(archive: zipfile.ZipFile, name: str, dtype: type) -> np.ndarray:
    """One array of the archive. Its header may promise any size, so what it promises is compared with what is there."""
    content = io.BytesIO(archive.read(f"{name}.npy"))
    version = np.lib.format.read_magic(content)
    if version != (1, 0):
        raise ValueError(f"{name} has npy version {version}, expected (1, 0)")
    shape, fortran, found = np.lib.format.read_array_header_1_0(content)
    rest = content.read()
    if fortran or found != np.dtype(dtype) or math.prod(shape) * found.itemsize != len(rest):
        raise ValueError(f"{name} is {found} of shape {shape} in {len(rest)} bytes, expected {np.dtype(dtype)} that fills them")
    return np.frombuffer(rest, dtype).reshape(shape)
