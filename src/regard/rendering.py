"""The interface between data that can be drawn and the code that draws it.

Records have drawing methods, `record.save("map.png")` and `record.plot()`, and notebooks show records as HTML. But `records`
must not import `viz`, which is in a higher layer. Therefore a record calls a renderer. `regard/__init__`, which Python runs
before any other module of the package, sets `viz.drawing` as the renderer. `viz` is imported when something is first drawn.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

PICTURES = (".png", ".svg", ".pdf")
"""Endings of picture files."""
PAGE = ".html"
"""Ending of HTML pages."""
Units = Literal["auto", "tokens", "characters", "words"]
"""Units of pictures and alignments; `auto` means characters on a side whose tokens are characters, and words otherwise."""


_find: Callable[[], Any] | None = None


def set_renderer(find: Callable[[], Any]) -> None:
    """Set the function that returns the renderer; it is called when something is drawn, so that `viz` is imported only then."""
    global _find
    _find = find


def renderer() -> Any:
    """Return the renderer: an object with the functions `draw`, `write` and `embed` of `viz.drawing`."""
    assert _find is not None, "regard/__init__ sets the renderer"
    return _find()
