"""The elements of a JSON array, one by one, so that memory does not grow with the file."""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.files.opening import open_utf8
from regard.text.files.strings import quoted

_BLOCK_BYTES = 1 << 19
LONGEST_ELEMENT = 1 << 24
"""Maximum number of characters of an element."""
_SPACE = re.compile(r"[ \t\r\n]*")
_ENDS_LATE = re.compile(r"[-+0-9.eE]")


def is_json_array(path: Path, encoding: str) -> bool:
    """Return True if a file begins like a JSON array of objects, or like an empty array."""
    with open_utf8(path, encoding) as file:
        begin = file.read(4096).decode("utf-8", "replace").lstrip()
    return begin.startswith("[") and begin[1:].lstrip()[:1] in ("{", "]", "")


def read_elements(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    """Read the elements of a JSON array.

    Args:
        path: The file.
        encoding: Its encoding, or `auto`.

    Yields:
        The number of an element, from 1, and its value.

    Raises:
        DataError: If the file is not one JSON array, or an element is too long (16 million characters) or nested too deeply.
    """
    decoder = json.JSONDecoder()
    with open_utf8(path, encoding) as file:
        text = _Text(file, path)
        text.skip_space()
        if not text.take("["):
            raise DataError(f"{path}: begins with {quoted(text.buffer, 20)}, expected a JSON array")
        number = 0
        text.skip_space()
        closed = text.take("]")
        while not closed:
            number += 1
            yield number, text.take_value(decoder, number)
            text.skip_space()
            closed = text.take("]")
            if not closed and not text.take(","):
                found = quoted(text.buffer[text.place :], 20) if text.place < len(text.buffer) else "the end of the file"
                raise DataError(f"{path}, element {number + 1}: found {found}, expected a comma or ] between the objects")
            text.skip_space()
        text.skip_space()
        if text.place < len(text.buffer):
            raise DataError(f"{path}: something follows the JSON array: {quoted(text.buffer[text.place :], 20)}")


class _Text:
    """The text of a file, of which only a small part is in memory at a time."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._path = file, path
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.buffer, self.place, self._ended = "", 0, False

    def skip_space(self) -> None:
        """Move to the next character that is not white space."""
        while True:
            found = _SPACE.match(self.buffer, self.place)
            assert found
            self.place = found.end()
            if self.place < len(self.buffer) or not self._grow():
                return

    def take(self, letter: str) -> bool:
        """Move past `letter` if it is the next character, and return whether it was."""
        found = self.buffer.startswith(letter, self.place)
        self.place += found
        return found

    def take_value(self, decoder: json.JSONDecoder, number: int) -> Any:
        """Return the next value, and read more of the file until the value is complete."""
        while True:
            try:
                value, end = decoder.raw_decode(self.buffer, self.place)
            except json.JSONDecodeError as error:
                if len(self.buffer) - self.place > LONGEST_ELEMENT:
                    raise DataError(f"{self._path}, element {number}: is longer than {LONGEST_ELEMENT:,} characters") from error
                # More text cannot repair an error far before the end of the buffer, except a string that is still open.
                near = len(self.buffer) - error.pos < _BLOCK_BYTES // 2 or error.msg.startswith("Unterminated")
                if near and self._grow():
                    continue
                reason, start = error.msg, quoted(self.buffer[self.place :], 60)
                raise DataError(f"{self._path}, element {number}: is not JSON ({reason}): {start}") from error
            except (RecursionError, ValueError) as error:
                raise DataError(f"{self._path}, element {number}: JSON nested too deeply, or a number too long") from error
            if end == len(self.buffer) and _ENDS_LATE.match(self.buffer, end - 1) and self._grow():
                continue
            self.place = end
            return value

    def _grow(self) -> bool:
        """Read more text; return False at the end of the file."""
        while not self._ended:
            data = self._file.read(_BLOCK_BYTES)
            self._ended = not data
            more = self._decoder.decode(data, final=not data)
            if more:
                self.buffer, self.place = self.buffer[self.place :] + more, 0
                return True
        return False
