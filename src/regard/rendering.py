"""The interface between data that can be drawn and the code that draws it.

Records have drawing methods, `record.save("map.png")` and `record.plot()`, and notebooks show records as HTML. But `records`
must not import `viz`, which is in a higher layer. Therefore a record calls a `Renderer`. `regard/__init__`, which Python runs
before any other module of the package, sets `viz.drawing` as the renderer. `viz` is imported when something is first drawn.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
"""Endings of picture files."""
PAGE = ".html"
"""Ending of HTML pages."""
Units = Literal["auto", "tokens", "characters", "words"]
"""Units of pictures and alignments; `auto` means characters on a side whose tokens are characters, and words otherwise."""


class Renderer(Protocol):
    """Interface of code that draws records. The arguments are those of `AttentionRecord.save` and `AttentionRecord.plot`."""

    @property
    def plot(self) -> Callable[..., "Figure"]:
        """Function that draws a record as a Matplotlib figure."""
        ...

    @property
    def write(self) -> Callable[..., None]:
        """Function that draws a record into a file whose ending is one of `PICTURES`, or `PAGE`."""
        ...

    def embed(self, record: Any) -> str:
        """Return HTML that shows a record in a notebook."""
        ...


_find: Callable[[], Renderer] | None = None


def set_renderer(find: Callable[[], Renderer]) -> None:
    """Set the renderer, which draws attention records.

    Args:
        find: Function that returns the renderer. It is called whenever something is drawn, so that `viz` is imported only then.
    """
    global _find
    _find = find


def renderer() -> Renderer:
    """Return the renderer, which draws attention records."""
    assert _find is not None, "regard/__init__ sets the renderer"
    return _find()
