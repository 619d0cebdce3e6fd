"""Colours and progress bars in a terminal, drawn by the library `rich`; untrusted text cannot control the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from regard.errors import printable


class SafeConsole(Console):
    """A console that escapes control characters in all text (`regard.errors.printable`), but not the codes of `rich` itself."""

    def on_broken_pipe(self) -> None:
        """Raise the error of the closed pipe, which the command line handles; `rich` would end the process with code 1."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object to print, with control characters in their text escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
