"""The interface between data that can be drawn and the code that draws it.

Records have drawing methods, `record.save("map.png")` and `record.plot()`, and notebooks show records as HTML. But `records`
must not import `viz`, which is in a higher layer. Therefore a record calls a renderer. `regard/__init__`, which Python runs
before any other module of the package, sets `viz.drawing` as the renderer. `viz` is imported when something is first drawn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, get_args

from regard.errors import RequestError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

PICTURES = (".png", ".svg", ".pdf")
"""Endings of picture files."""
PAGE = ".html"
"""Ending of HTML pages."""
Units = Literal["auto", "tokens", "characters", "words"]
"""Units of pictures and alignments; `auto` means characters on a side whose tokens are characters, and words otherwise."""

Over = Literal["patches", "smooth", "beside", "matrix"]
"""How pictures show weights on an image: in patches or smoothly over it, beside it, or as a matrix of words and patches."""
Theme = Literal["light", "dark", "transparent"]
"""Colours of pictures: on white, on a dark background, or dark letters on no background."""
theme: ContextVar[Theme] = ContextVar("theme", default="light")
"""Theme of the pictures that are being drawn."""


@contextmanager
def themed(name: Theme) -> Iterator[None]:
    """Draw pictures with a theme inside the context."""
    if name not in get_args(Theme):
        raise RequestError(f"theme is {name!r:.40}, expected one of: {', '.join(get_args(Theme))}")
    before = theme.set(name)
    try:
        yield
    finally:
        theme.reset(before)


_find: Callable[[], Any] | None = None


def set_renderer(find: Callable[[], Any]) -> None:
    """Set the function that returns the renderer; it is called when something is drawn, so that `viz` is imported only then."""
    global _find
    _find = find


def renderer() -> Any:
    """Return the renderer: an object with the functions `draw`, `write` and `embed` of `viz.drawing`."""
    assert _find is not None, "regard/__init__ sets the renderer"
    return _find()
