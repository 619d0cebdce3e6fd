"""Files, plain or gzip, as blocks of numbered lines.

A line ends at `\\n` and nowhere else: a lone `\\r`, U+2028 or U+0085 inside a sentence does not split it. The `\\r` of CRLF is
left at the end, where stripping takes it away.
"""

from collections.abc import Iterator
from pathlib import Path

from regard.text.files.encoding import open_utf8

BLOCK_BYTES = 1 << 19
"""Read at once: so little that the lines of a block stay in the processor's cache (a block of 4 MB is half as fast)."""
LONGEST_LINE = 1 << 24
"""Bytes of a line that is still held in memory; more are passed over, so that a file without line ends cannot fill it."""
LONGEST_SIDE = 1 << 16
"""Characters of a sentence or text; what is longer is none, and would only feed memory to tokenizers."""
CHUNK_CHARACTERS = 1 << 22
"""Of the rows that are held at once, where a row can be long; always one row at least."""

OVER_LONG_LINE = "\x00over-long line"
"""Stands in for a line beyond `LONGEST_LINE`; recognised by identity."""


def line_blocks(path: str | Path, encoding: str = "auto") -> Iterator[tuple[int, list[str]]]:
    """Read the lines of a file in small blocks.

    What cannot be decoded becomes lone surrogates (`surrogateescape`), which `readers.clean` finds and reports. A byte order
    mark at the start is removed.

    Args:
        path: The file.
        encoding: Its encoding; `auto` for the one that a byte order mark gives, else UTF-8.

    Yields:
        The number of the block's first line, from 1, and the lines.

    Raises:
        DataError: As `opening.open_bytes`.
    """
    with open_utf8(path, encoding) as file:
        number, rest, passing = 1, b"", False
        while data := file.read(BLOCK_BYTES):
            if passing:
                cut = data.find(b"\n")
                if cut < 0:
                    continue
                yield number, [OVER_LONG_LINE]
                number, passing, data = number + 1, False, data[cut + 1 :]
            data = rest + data
            cut = data.rfind(b"\n")
            if cut >= 0:
                lines = _decode(data[:cut]).split("\n")
                yield number, lines
                number += len(lines)
            rest = data[cut + 1 :]
            if len(rest) > LONGEST_LINE:
                rest, passing = b"", True
        if passing:
            yield number, [OVER_LONG_LINE]
        elif rest:
            yield number, [_decode(rest)]


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="surrogateescape")
