"""Files in other encodings than UTF-8, converted to UTF-8 while they are read."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from regard.errors import DataError
from regard.text.files.opening import open_bytes

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNREADABLE = "\udcff"
"""Placeholder for what cannot be decoded. It is not a valid character, so the readers can detect it."""


class Bytes(Protocol):
    """A file that is read from its beginning to its end."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; empty at the end of the file."""
        ...


def _mark_unreadable(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError):
        return b"\xff" * (error.end - error.start), error.end
    assert isinstance(error, UnicodeDecodeError)
    return _UNREADABLE, error.end


codecs.register_error("regard-unreadable", _mark_unreadable)


class _Recoded:
    """A file converted to UTF-8. What cannot be decoded becomes bytes that are not valid UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str, begin: bytes) -> None:
        self._file, self._begin, self._first = file, begin, True
        self._decoder = codecs.getincrementaldecoder(encoding)("regard-unreadable")

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; their number can differ a little from `size`."""
        while True:
            data, self._begin = self._begin or self._file.read(size), b""
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeError:  # some codecs refuse a file as a whole
                return b"\xff" * len(data)
            if text and self._first:
                text, self._first = text.removeprefix("\ufeff"), False
            if text or not data:
                return text.encode("utf-8", "regard-unreadable")


class _Begun:
    """A file whose first bytes have already been read."""

    def __init__(self, file: IO[bytes], begin: bytes) -> None:
        self._file, self._begin = file, begin

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        if self._begin:
            begin, self._begin = self._begin, b""
            return begin + self._file.read(size)
        return self._file.read(size)


@contextmanager
def open_utf8(path: str | Path, encoding: str = "auto") -> Iterator[Bytes]:
    """Open a file, through gzip if need be, so that it reads as UTF-8 without a byte order mark.

    Args:
        path: The file.
        encoding: Its encoding; `auto` for the one that its byte order mark gives, else UTF-8.

    Raises:
        DataError: As `opening.open_bytes`.
    """
    known = encoding == "auto" or is_utf8(encoding)
    if not known and codecs.lookup(encoding).incrementaldecoder is None:
        raise DataError(f"data.encoding is '{encoding}', which cannot be read piece by piece; convert the file to UTF-8")
    with open_bytes(path) as file:
        begin = file.read(4)
        marked = next(((mark, name) for mark, name in _MARKS if begin.startswith(mark)), None)
        if encoding == "auto":
            mark, found = marked or (b"", "utf-8")
            begin = begin.removeprefix(mark)
        else:
            found = encoding
            if not marked and codecs.lookup(encoding).name in ("utf-16", "utf-32"):
                found = f"{codecs.lookup(encoding).name}-le"  # as Windows writes it; Python refuses files without a mark
            if marked and is_utf8(encoding):
                begin = begin.removeprefix(codecs.BOM_UTF8)
        yield _Begun(file, begin) if is_utf8(found) else _Recoded(file, found, begin)


def fits_utf8(path: str | Path) -> bool:
    """Return True if a whole file can be read as UTF-8, or in the encoding that its byte order mark gives."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_utf8(path) as file:
        try:
            while data := file.read(1 << 19):
                decoder.decode(data)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def is_utf8(encoding: str) -> bool:
    """Return True if an encoding's name means UTF-8, with or without a mark.

    Raises:
        DataError: If there is no such encoding.
    """
    try:
        return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    except LookupError as error:
        raise DataError(
            f"data.encoding is '{encoding}', which is not an encoding of Python; expected auto, cp1252, …"
        ) from error


def show_encoding(path: str | Path, encoding: str) -> str:
    """Return the name of the encoding that a file is read in, for reports.

    Args:
        path: The file.
        encoding: Its encoding, or `auto`.
    """
    if encoding != "auto":
        return "UTF-8" if is_utf8(encoding) else encoding
    with open_bytes(path) as file:
        begin = file.read(4)
    found = next((name for mark, name in _MARKS if begin.startswith(mark)), "utf-8")
    return found.removesuffix("-le").removesuffix("-be").upper()
