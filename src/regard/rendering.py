"""The interface between data that can be drawn and the code that draws it.

A record draws itself: `record.save("map.png")`, `record.plot()`, and a notebook that shows it. But `records` is plain data, in
a layer below `viz`, and imports nothing of it. A record calls a `Renderer`. `viz.render` is one, and `regard/__init__`, which
sees both and which Python runs before any other module of the package, names it. It is imported when something is drawn.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
"""Endings of picture files."""
PAGE = ".html"
"""Ending of pages."""


class Renderer(Protocol):
    """Draws records. The arguments are those of `AttentionRecord.save` and `AttentionRecord.plot`."""

    def plot(
        self, record: Any, *, site: str | None, head: int | None, title: str | None, special: bool, caption: bool
    ) -> "Figure":
        """Draw a picture."""
        ...

    def write(self, record: Any, path: Path, *, site: str | None, head: int | None, special: bool, caption: bool) -> None:
        """Write a file whose ending is one of `PICTURES`, or `PAGE`."""
        ...

    def embed(self, record: Any) -> str:
        """Return HTML that shows a record in a notebook."""
        ...


_find: Callable[[], Renderer] | None = None


def set_renderer(find: Callable[[], Renderer]) -> None:
    """Name the renderer.

    Args:
        find: Returns it; called whenever something is drawn, so that the import can wait until then.
    """
    global _find
    _find = find


def renderer() -> Renderer:
    """Return the renderer."""
    assert _find is not None, "regard/__init__ names the renderer"
    return _find()
