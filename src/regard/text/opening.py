"""Open plain or gzip files in any encoding, as bytes, as UTF-8, or as blocks of numbered lines.

A line ends only at `\\n`: a single `\\r`, U+2028 or U+0085 inside a sentence does not split it. The `\\r` of CRLF stays at
the end, and is stripped later. While a file is read, its hash can be computed on the way, so that it is read only once.
"""

import codecs
import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from regard.errors import DataError, nearest
from regard.text.strings import is_unicode

BLOCK_BYTES = 1 << 19
"""Number of bytes read at once. The lines of such a block fit into the processor's cache; blocks of 4 MB are half as fast."""
LONGEST_LINE = 1 << 24
"""Maximum number of bytes of a line in memory. Longer lines are skipped, so that a file without line ends cannot fill the
memory.
"""
LONGEST_SIDE = 1 << 16
"""Maximum number of characters in a sentence or text; longer ones would only cost memory in tokenizers."""
CHUNK_ROWS = 4096
"""Maximum number of rows in a chunk."""
CHUNK_CHARACTERS = 1 << 22
"""Number of characters after which a chunk of rows ends, so that long rows cannot fill the memory."""
OVER_LONG_LINE = "\x00over-long line"
"""Placeholder for a line that is longer than `LONGEST_LINE`; the readers recognise it by `is`."""

# Minimum number of lines that end in `\r` for which a file without `\n` is refused. A line may contain a few `\r`.
_FEWEST_RETURNS = 12
_ARCHIVES = {b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
# Beginning of an old office document, or of a new one, which is a zip archive.
_OFFICE = re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1|PK.*(\[Content_Types\]\.xml|application/vnd\.oasis\.opendocument)", re.DOTALL)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, because its mark begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def check_file(path: str | Path, what: str = "sentence pairs") -> Path:
    """Return the path, if it is a readable file that is not empty; `what` is its expected content, for messages."""
    path = Path(path)
    try:
        if not path.exists():
            beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
            problem = f"there is no such file{nearest(path.name, beside) or '; check the path'}"
        elif path.is_dir():
            problem = f"is a folder, expected a file of {what}; name the file in it"
        elif not path.is_file():
            problem = "is a pipe or device, and data is read more than once; write it to a file first"
        else:
            with path.open("rb") as file:
                problem = "" if file.read(1) else f"is empty, expected {what}"
    except (OSError, ValueError) as error:  # an invalid name, or a file or folder without permission
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', error)}); check its permissions") from error
    if problem:
        raise DataError(f"{path}: {problem}")
    return path


class _HashedFile(io.FileIO):
    """A file whose hash is computed while it is read."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.sha256 = hashlib.sha256()

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer)
        self.sha256.update(memoryview(buffer)[:size])
        return size


@contextmanager
def open_bytes(path: str | Path, hashes: dict[str, str] | None = None) -> Iterator[io.BufferedReader]:
    """Open a file, unpack it if it begins like gzip, and convert errors while reading to a DataError. It may be a pipe.

    `hashes` receives the SHA-256 hash of the whole file, as it is on the disk, by its path.
    """
    try:
        with io.FileIO(path) if hashes is None else _HashedFile(path) as raw, io.BufferedReader(raw) as plain:
            if stat.S_ISCHR(os.fstat(plain.fileno()).st_mode) and not plain.isatty():
                raise DataError(f"{path}: is a device, expected a file or a pipe")
            file: Any = gzip.GzipFile(fileobj=plain) if _check_begin(plain, path) else plain
            yield file
            if hashes is not None and isinstance(raw, _HashedFile):
                # A reader may stop before the end, but the hash is that of the whole file.
                while file.read(BLOCK_BYTES) or plain.read(BLOCK_BYTES):
                    pass
                hashes[str(path)] = raw.sha256.hexdigest()
    except EOFError as error:
        raise DataError(f"{path}: the gzip file ends too early; copy or download it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged ({error}); copy or download it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _check_begin(file: Any, path: str | Path) -> bool:
    """Return True if a file is packed with gzip, and raise an error if it is packed in another way."""
    begin = file.peek(200)[:200]
    if _OFFICE.match(begin):
        raise DataError(
            f"{path}: is an Excel workbook or another office document, expected text; save the sheet as 'CSV UTF-8' in your "
            "spreadsheet program, and give that file"
        )
    if archive := next((name for start, name in _ARCHIVES.items() if begin.startswith(start)), ""):
        raise DataError(f"{path}: is packed with {archive}, expected plain or gzip; unpack it first")
    return begin.startswith(b"\x1f\x8b")


def _mark_unreadable(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError):
        return b"\xff" * (error.end - error.start), error.end
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end  # not a valid character, so the readers can detect it


codecs.register_error("regard-unreadable", _mark_unreadable)


class _Recoded:
    """A file converted to UTF-8. Bytes that cannot be decoded become bytes that are not valid UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file, self._first = file, True
        self._decoder = codecs.getincrementaldecoder(encoding)("regard-unreadable")

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; their number can differ a little from `size`."""
        while True:
            data = self._file.read(size)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeError:  # some codecs raise an error for the whole file
                return b"\xff" * len(data)
            if text and self._first:
                text, self._first = text.removeprefix("\ufeff"), False
            if text or not data:
                return text.encode("utf-8", "regard-unreadable")


def find_mark(file: io.BufferedReader) -> tuple[bytes, str]:
    """Return the byte order mark of an opened file and the encoding that it gives; no bytes and UTF-8 without a mark."""
    begin = file.peek(4)[:4]
    return next(((mark, name) for mark, name in _MARKS if begin.startswith(mark)), (b"", "utf-8"))


@contextmanager
def open_utf8(path: str | Path, encoding: str = "auto", hashes: dict[str, str] | None = None) -> Iterator[Any]:
    """Open a file, unpack it if necessary, and read it as UTF-8 without a byte order mark; `hashes` as for `open_bytes`."""
    with open_bytes(path, hashes) as file:
        mark, found = find_mark(file)
        if encoding != "auto" and not mark:  # the setting may be meant for other files
            name = codecs.lookup(encoding).name
            # Little-endian as on Windows; without a mark, Python would fail.
            found = f"{name}-le" if name in ("utf-16", "utf-32") else encoding
        if is_utf8(found):
            file.read(len(codecs.BOM_UTF8) if mark == codecs.BOM_UTF8 else 0)
            yield file
        else:
            yield _Recoded(file, found)


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


def fits_utf8(path: str | Path) -> bool:
    """Return True if a whole file can be read as UTF-8, or in the encoding that its byte order mark gives."""
    return all(is_unicode("\n".join(lines)) for lines, _ in line_blocks(path, any_line_ends=True))


def is_utf8(encoding: str) -> bool:
    """Return True if an encoding's name means UTF-8, with or without a byte order mark."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")  # settings with unknown encodings are refused before


def show_encoding(path: str | Path, encoding: str) -> str:
    """Return the name of the encoding in which a file is read, for reports; `encoding` is a name or `auto`."""
    with open_bytes(path) as file:
        mark, found = find_mark(file)
    if encoding == "auto" or mark:
        return found.removesuffix("-le").removesuffix("-be").upper()
    return "UTF-8" if is_utf8(encoding) else encoding


def line_blocks(
    path: str | Path, encoding: str = "auto", hashes: dict[str, str] | None = None, *, any_line_ends: bool = False
) -> Iterator[tuple[list[str], range]]:
    """Read the lines of a file in small blocks, with their numbers from 1.

    Bytes that cannot be decoded become lone surrogates (`surrogateescape`), which the readers find and report. A byte order
    mark at the start of a line is removed. A line that is longer than `LONGEST_LINE` is replaced with `OVER_LONG_LINE` in a
    block of its own. If `any_line_ends`, lines that end in `\\r` only are accepted and stay one line, for files that hold a
    single text.
    """
    with open_utf8(path, encoding, hashes) as file:
        number, rest, passing = 1, b"", False
        while data := file.read(BLOCK_BYTES):
            if passing:
                cut = data.find(b"\n")
                if cut < 0:
                    continue
                yield [OVER_LONG_LINE], range(number, number + 1)
                number, passing, data = number + 1, False, data[cut + 1 :]
            data = rest + data
            if number == 1 and not any_line_ends:
                _check_line_ends(data[:BLOCK_BYTES], path)
            cut = data.rfind(b"\n")
            if cut >= 0:
                lines = _decode(data[:cut]).split("\n")
                yield lines, range(number, number + len(lines))
                number += len(lines)
            rest = data[cut + 1 :]
            # From here to the next line feed, bytes are dropped, so that a file without line ends cannot fill the memory.
            if len(rest) > LONGEST_LINE:
                rest, passing = b"", True
        if passing or rest:
            yield [OVER_LONG_LINE if passing else _decode(rest)], range(number, number + 1)


def _check_line_ends(begin: bytes, path: str | Path) -> None:
    """Raise an error if a file begins with line ends of the old Mac OS, because it would be read as one line."""
    if b"\r" not in begin or b"\n" in begin.rstrip():
        return
    if sum(bool(line.strip()) for line in begin.split(b"\r")) >= _FEWEST_RETURNS:
        raise DataError(
            f"{path}: its lines end with \\r alone, as on the old Mac OS, expected \\n or \\r\\n; save it again as 'CSV UTF-8' "
            "in your spreadsheet program, or convert it with `tr '\\r' '\\n' < OLD > NEW`"
        )


def _decode(data: bytes) -> str:
    # Files that were joined have a byte order mark at the beginning of each.
    data = data.removeprefix(codecs.BOM_UTF8).replace(b"\n" + codecs.BOM_UTF8, b"\n")
    return data.decode("utf-8", errors="surrogateescape")
