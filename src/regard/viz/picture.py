"""Helpers for all pictures: the style, measured and wrapped text, and files that are written completely or not at all.

The layout of pictures is in inches from the top left corner, and is computed from the measured size of words. pyplot is not
used, the user's own style is not changed, and the same data give the same bytes.
"""

import io
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure

from regard import disk
from regard.errors import RequestError, nearest
from regard.rendering import PICTURES
from regard.viz import colour, fonts
from regard.viz.labels import left_to_right, runs_right_to_left
from regard.viz.numbers import tick

INK, GREY, FRAME = "#111111", "#555555", "#999999"
SMALL = 7.0
"""Font size of small print in points."""
SMALL_LINE = SMALL * 1.35 / 72
"""Line spacing of small print in inches."""
ASCENT = 0.76
"""Height of tall letters above the baseline, as a share of the font size."""
EDGE = 0.12
"""Margin in inches."""
_MAX_PIXELS = 30_000
_EMPTY_WIDTH = 4.4
_METADATA: dict[str, dict[str, Any]] = {  # no dates and versions, so that the same record gives the same bytes
    ".png": {"Software": "regard"},
    ".svg": {"Creator": "regard", "Date": None},
    ".pdf": {"Creator": "regard", "Producer": "regard", "CreationDate": None},
}
_UNHINTED: Any = {"text.hinting": "none"}
"""Hinting is off, because with it the width of a word depends on the resolution, and differs from its measured
width.
"""
_STYLE: Any = {
    "font.size": 10.0,
    "text.color": INK,
    **_UNHINTED,
    "text.usetex": False,
    "axes.edgecolor": FRAME,
    "axes.unicode_minus": False,
    "path.sketch": None,
    "savefig.bbox": None,
    "savefig.facecolor": "white",
    "savefig.edgecolor": "white",
    "savefig.transparent": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "regard",
    "pdf.fonttype": 42,
    "pdf.compression": 6,
}


class Picture(Figure):
    """A figure that a notebook shows, even without pyplot."""

    def _repr_png_(self) -> bytes:
        return _encode(self, ".png")

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure with the same style that was used to measure its texts."""
        with matplotlib.rc_context(_UNHINTED):
            super().draw(renderer)

    def resize(self, width: float, height: float, dpi: float) -> None:
        """Set the size in inches, and the pixels per inch, reduced if a side would have more than 30,000 pixels."""
        self.set_size_inches(width, height)
        self.set_dpi(min(dpi, _MAX_PIXELS / max(width, height)))

    def box(self, left: float, top: float, width: float, height: float) -> tuple[float, float, float, float]:
        """Convert a rectangle, in inches from the top left corner, into the fractions of the figure that `add_axes` expects."""
        whole, tall = self.get_size_inches()
        return left / whole, 1 - (top + height) / tall, width / whole, height / tall

    def write(self, text: str, left: float, top: float, **style: Any) -> None:
        """Write text at a position in inches from the top left corner; `$` never begins a formula.

        Without `va`, `top` is the top of tall Latin letters. Letters of other scripts have the same baseline.
        """
        whole, tall = self.get_size_inches()
        if "va" not in style:
            style["va"], top = "baseline", top + ASCENT * style["fontsize"] / 72
        self.text(left / whole, 1 - top / tall, text, parse_math=False, **style)

    def write_foot(self, lines: Sequence[str]) -> None:
        """Write lines of small print at the lower edge."""
        tall = self.get_size_inches()[1]
        for number, line in enumerate(lines):
            top = tall - EDGE - (len(lines) - number) * SMALL_LINE
            self.write(left_to_right(line), EDGE, top, ha="left", fontsize=SMALL, color=GREY)

    def write_title(self, lines: Sequence[str], size: float, step: float, *, centred: bool = False) -> None:
        """Write lines at the upper edge, `step` inches apart, in the writing direction of the title."""
        width, turned = self.get_size_inches()[0], runs_right_to_left(lines)
        left, side = (width / 2, "center") if centred else (width - EDGE, "right") if turned else (EDGE, "left")
        for number, line in enumerate(lines if turned else map(left_to_right, lines)):
            self.write(line, left, EDGE + number * step, ha=side, fontsize=size)

    def measure(self, texts: Sequence[str], size: float) -> list[float]:
        """Return the width of each text in inches."""
        renderer = self.canvas.get_renderer()  # type: ignore[attr-defined]
        artist = self.text(0, 0, "", fontsize=size, parse_math=False)
        widths = []
        for text in texts:
            artist.set_text(text)
            widths.append(artist.get_window_extent(renderer).width / self.dpi)
        artist.remove()
        return widths

    def wrap(self, text: str, width: float, size: float = SMALL) -> list[str]:
        """Wrap a text into lines of at most `width` inches; a word that is wider than a line is split."""
        lines, line = [], ""
        for word in text.split():
            longer = f"{line} {word}" if line else word
            if self.measure([longer], size)[0] <= width:
                line = longer
                continue
            lines += [line] if line else []
            while (fitting := self._fitting(word, width, size)) < len(word):
                lines.append(word[:fitting])
                word = word[fitting:]
            line = word
        return [*lines, line]

    def _fitting(self, word: str, width: float, size: float) -> int:
        """Return the number of characters of a word, at least one, that fit into a line."""
        return max(1, bisect_right(range(1, len(word) + 1), width, key=lambda end: self.measure([word[:end]], size)[0]))

    def save(self, path: str | Path | None) -> None:
        """Write the picture in the format of the file's ending; do nothing without a path."""
        if path is not None:
            disk.save(path, _encode(self, Path(path).suffix.lower()))


def check(what: str, path: str | Path | None, dpi: float) -> str:
    """Check the arguments of a picture, and return the ending of the file to write; "" for no file.

    Raises:
        RequestError: If pictures cannot have this ending, or `dpi` is not from 10 to 2400.
    """
    ending = "" if path is None else Path(path).suffix.lower()
    if path is not None and ending not in PICTURES:
        raise RequestError(f"{path}: a {what} is drawn as {' '.join(PICTURES)}, not as '{ending}'{nearest(ending, PICTURES)}")
    if not 10 <= dpi <= 2400:
        raise RequestError(f"{what}: dpi is {dpi}, expected 10 to 2400")
    return ending


def find_fonts(what: str, texts: Iterable[str], ending: str) -> tuple[list[str], list[str]]:
    """Return font families for the texts, and small print about characters that no font has; also warn about them.

    For an SVG, there is no small print and no warning.
    """
    families, missing = fonts.families(texts)
    if not missing or ending == ".svg":  # an SVG contains text, which is drawn with the viewer's fonts
        return families, []
    shown = " ".join(missing[:12]) + (" …" if len(missing) > 12 else "")
    text = (
        f"No installed font has {len(missing)} of the characters; boxes are drawn in their place. "
        "Install a font that has them (Noto Sans CJK has Chinese, Japanese and Korean), or save as .svg or .html."
    )
    warnings.warn(f"{what}: {text} Missing: {shown}", fonts.FontWarning, stacklevel=4)
    return families, [text]


@contextmanager
def blank(families: Sequence[str]) -> Iterator[Picture]:
    """Yield an empty picture; the style for drawing is set while the context is open."""
    with matplotlib.rc_context({**_STYLE, "font.family": list(families)}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # `find_fonts` warns once, with advice
        picture = Picture(facecolor="white")
        FigureCanvasAgg(picture)
        yield picture


def _encode(picture: Picture, ending: str) -> bytes:
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        picture.savefig(buffer, format=ending[1:], dpi=picture.dpi, metadata=_METADATA[ending])
    return buffer.getvalue()


def colours(values: np.ndarray, scale: float) -> tuple[ListedColormap, Normalize]:
    """Return the colour map and its range: from zero to `scale`, or from −`scale` if there are negative values."""
    positive = colour.ramp(colour.LIGHT, 256)
    if (values >= 0).all():
        return ListedColormap(positive, "regard"), Normalize(0, scale)
    both = np.concatenate([colour.ramp(colour.LIGHT_NEGATIVE, 256)[::-1], positive[1:]])
    return ListedColormap(both, "regard_signed"), Normalize(-scale, scale)


def draw_empty(what: str, lines: Sequence[str], path: str | Path | None, title: str | None, dpi: float) -> Picture:
    """Draw a picture that says why there is nothing to draw.

    Args:
        what: The kind of picture, for warnings.
        lines: The reason, which is written in large letters, followed by lines of small print.
        path: File to write; None for no file.
        title: Text at the top.
        dpi: Pixels per inch.
    """
    families, complaint = find_fonts(what, [*lines, title or ""], "" if path is None else Path(path).suffix.lower())
    with blank(families) as figure:
        room = _EMPTY_WIDTH - 2 * EDGE
        head = figure.wrap(title, room, 11) if title else []
        foot = [part for text in (*lines[1:], *complaint) for part in figure.wrap(text, room)]
        top = EDGE + 0.24 * len(head)
        figure.resize(_EMPTY_WIDTH, top + 0.6 + len(foot) * SMALL_LINE + EDGE, dpi)
        figure.write_title(head, 11, 0.24)
        figure.write(lines[0], _EMPTY_WIDTH / 2, top + 0.27, ha="center", va="center", fontsize=10, color=GREY, style="italic")
        figure.write_foot(foot)
    figure.save(path)
    return figure


def draw_bar(
    picture: Picture,
    box: tuple[float, float, float, float],
    mappable: ScalarMappable,
    name: str,
    *,
    ticks: int,
    lying: bool = False,
    form: Callable[[float], str] = tick,
) -> None:
    """Draw the colour bar in a box: left, top, width and height in inches."""
    axes = picture.add_axes(picture.box(*box))
    bar = picture.colorbar(mappable, cax=axes, orientation="horizontal" if lying else "vertical")
    bar.set_ticks(np.linspace(*mappable.get_clim(), ticks).tolist())
    bar.ax.tick_params(labelsize=SMALL, length=2, color=FRAME, labelcolor=GREY)
    (bar.ax.xaxis if lying else bar.ax.yaxis).set_major_formatter(lambda value, _: form(value))
    bar.outline.set_linewidth(0.4)
    if not lying:
        bar.set_label(name, fontsize=SMALL, color=GREY)
