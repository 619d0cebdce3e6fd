"""Process lines of standard input while their words arrive, from a pipe or as they are typed (`regard translate --live-words`).

In a pipe, each line that is read gives one line of output, which is written word by word. In a terminal, the result is shown
below the line that is typed; a word is processed when the space after it is typed.
"""

import argparse
import os
import sys
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, takewhile
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from regard.console import SafeConsole
from regard.errors import RequestError
from regard.task import TextOperation
from regard.terminal import show

# Maximum number of characters of a word; the others are dropped.
_LONGEST_WORD = 2048
_BACKSPACE, _END = ("\x7f", "\b"), "\x04"


def main(operation: TextOperation, model: Any, options: argparse.Namespace) -> None:
    """Process the lines of standard input word by word until it ends."""
    given = [name for name in ("texts", "input", "output", "json", "heatmap") if getattr(options, name, None)]
    if given:
        named = f"the {operation.text}" if given[0] == "texts" else f"--{given[0]}"
        raise RequestError(f"{operation.name}: --live-words reads standard input and prints at once; leave {named} out")
    if sys.stdin is None:
        raise RequestError(f"{operation.name}: standard input is closed, but --live-words reads it")
    with _open_screen() as screen:
        events = words_and_ends(_characters(sys.stdin.fileno(), screen))
        for first in events:
            words = takewhile(bool, chain([first], events))
            operation.process_words(model, words, _print if screen is None else screen.write)
            deque(words, 0)  # the rest of the line
            _print("\n") if screen is None else screen.end()


def _print(part: str) -> None:
    show(part, end="", flush=True)


class _Screen:
    """A line as it is typed, and the result below it, in a terminal."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin with empty lines below everything that was shown before."""
        self.typed, self.result = "", ""
        self.live = Live(console=SafeConsole(), auto_refresh=False)

    def type(self, character: str) -> None:
        if character in _BACKSPACE:  # a word that ended was already processed
            self.typed = self.typed if self.typed.endswith(" ") else self.typed[:-1]
        elif character.isprintable():
            self.typed += character
        self.show()

    def write(self, part: str) -> None:
        self.result += part
        self.show()

    def show(self) -> None:
        self.live.start()
        self.live.update(Group(Text(self.typed), Text(self.result, style="bold")), refresh=True)

    def end(self) -> None:
        """Keep both lines, and begin below them."""
        self.live.stop()
        self.begin()


@contextmanager
def _open_screen() -> Iterator[_Screen | None]:
    """Give each key of a terminal to the program at once; yield None if this is not possible, as in a pipe."""
    try:
        import termios
        import tty
    except ImportError:  # on Windows, terminals deliver whole lines
        termios = None  # type: ignore[assignment]
    if termios is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield None
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSANOW)  # keys that were typed before are kept
    screen = _Screen()
    try:
        show("Type a line: a space ends a word, Enter ends the line, Ctrl-D ends the program.", file=sys.stderr)
        yield screen
    finally:
        screen.live.stop()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _characters(source: int, screen: _Screen | None) -> Iterator[str]:
    """Yield the characters of a file as they arrive, and show them on a screen; invalid UTF-8 becomes \ufffd."""
    decoder = getincrementaldecoder("utf-8")("replace")
    while data := os.read(source, 1 << 16):
        for character in decoder.decode(data):
            if screen is not None:
                if character == _END:
                    return
                screen.type(character)
            yield character


def words_and_ends(characters: Iterator[str]) -> Iterator[str]:
    """Yield words when the white space after them arrives, and "" at each end of a line; the last line needs no line break."""
    word, open_line = "", False
    for character in characters:
        if character in _BACKSPACE:
            word = word[:-1]
        elif not character.isspace():
            word += character if len(word) < _LONGEST_WORD else ""
        elif word:
            yield word
            word, open_line = "", True
        if character == "\n":
            yield ""
            open_line = False
    if word:
        yield word
    if word or open_line:
        yield ""
