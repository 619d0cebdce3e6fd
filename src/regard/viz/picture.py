"""Helpers for all pictures: the style, panels of a size in inches, and files that are written completely or not at all.

A picture is drawn in panels (axes) of the size that their content needs. Matplotlib measures what it draws around them, such as
words and names of axes, and the picture becomes as large as the whole. pyplot is not used, the user's own style is not changed,
and the same data give the same bytes.
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
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from regard import disk
from regard.errors import RequestError, nearest
from regard.records.views import WordView
from regard.rendering import PICTURES
from regard.viz import colour, fonts
from regard.viz.colour import palette
from regard.viz.labels import left_to_right, runs_right_to_left
from regard.viz.numbers import tick

SMALL = 7.0
"""Font size of small print in points."""
EDGE = 0.12
"""Margin in inches."""
BAR = 0.14
"""Width of a vertical colour bar in inches."""
_SMALL_LINE = SMALL * 1.35 / 72
# Height of tall letters above the baseline, as a share of the font size.
_ASCENT = 0.76
# Pixels per inch; fewer if a side would have more pixels than this.
_DPI, _MAX_PIXELS = 150, 30_000
_EMPTY_WIDTH = 4.4
_METADATA: dict[str, dict[str, Any]] = {  # no dates and versions, so that the same record gives the same bytes
    ".png": {"Software": "regard"},
    ".svg": {"Creator": "regard", "Date": None},
    ".pdf": {"Creator": "regard", "Producer": "regard", "CreationDate": None},
}
# Hinting is off, because with it the width of a word depends on the resolution, and differs from its measured width.
_UNHINTED: Any = {"text.hinting": "none"}
_STYLE: Any = {
    "font.size": 10.0,
    "text.parse_math": False,
    **_UNHINTED,
    "text.usetex": False,
    "axes.unicode_minus": False,
    "path.sketch": None,
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "savefig.edgecolor": "none",
    "savefig.transparent": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "regard",
    "pdf.fonttype": 42,
    "pdf.compression": 6,
}


class Picture(Figure):
    """A figure that a notebook shows, even without pyplot, and that is as large as its panels and what surrounds them."""

    def __init__(self, complaint: Sequence[str]) -> None:
        super().__init__(figsize=(1, 1), facecolor=palette().background)
        FigureCanvasAgg(self)
        self._complaint = complaint
        self._places: dict[Axes, tuple[float, float, float, float]] = {}

    def _repr_png_(self) -> bytes:
        return _encode(self, ".png")

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure with the same style that was used to measure its texts."""
        with matplotlib.rc_context(_UNHINTED):
            super().draw(renderer)

    def add_panel(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add axes with a position and size in inches; positions count right and down from any origin."""
        # The place is final only when `finish` knows the size of the whole picture.
        axes = self.add_axes((0, 0, 1, 1))
        self._places[axes] = (left, top, width, height)
        self._move(axes, 0.0, 0.0)
        return axes

    def _move(self, axes: Axes, right: float, down: float) -> None:
        """Place a panel at its position, moved by these distances."""
        whole, tall = self.get_size_inches()
        left, top, width, height = self._places[axes]
        axes.set_position(((left + right) / whole, 1 - (top + down + height) / tall, width / whole, height / tall))

    def content(self) -> Bbox:
        """Return the box around all panels and their texts before `finish`, in inches; `y0` is its upper edge."""
        renderer = self.canvas.get_renderer()  # type: ignore[attr-defined]
        box = Bbox.union([box for axes in self._places if (box := axes.get_tightbbox(renderer))])
        return Bbox([[box.x0 / self.dpi, 1 - box.y1 / self.dpi], [box.x1 / self.dpi, 1 - box.y0 / self.dpi]])

    def finish(
        self, title: str, foot: Sequence[str] | None, *, least_width: float = 0.0, size: float = 11.0, centred: bool = False
    ) -> None:
        """Give the picture its size, and write a title above the panels and small print below them.

        One about missing fonts is added to the sentences in `foot`, but None stands for no small print at all.
        """
        box = self.content()
        width = max(least_width, box.width + 2 * EDGE)
        heads = self.wrap(title, width - 2 * EDGE, size) if title else []
        sentences = () if foot is None else (*foot, *self._complaint)
        lines = [line for text in sentences for line in self.wrap(text, width - 2 * EDGE)]
        step = size / 50  # inches between the lines of the title
        top = EDGE + step * len(heads) + 0.08 * bool(heads)
        height = top + box.height + 0.12 * bool(lines) + _SMALL_LINE * len(lines) + EDGE
        self.set_size_inches(width, height)
        self.set_dpi(min(_DPI, _MAX_PIXELS / max(width, height)))
        for axes in self._places:
            self._move(axes, (width - box.width) / 2 - box.x0, top - box.y0)
        turned = runs_right_to_left(heads)
        left, side = (width / 2, "center") if centred else (width - EDGE, "right") if turned else (EDGE, "left")
        for number, line in enumerate(heads):
            self._write(line if turned else left_to_right(line), left, EDGE + number * step, ha=side, fontsize=size)
        for number, line in enumerate(lines):
            place = height - EDGE - (len(lines) - number) * _SMALL_LINE
            self._write(left_to_right(line), EDGE, place, ha="left", fontsize=SMALL, color=palette().grey)

    def _write(self, text: str, left: float, top: float, **style: Any) -> None:
        """Write a line; `top` is the top of tall Latin letters, so that letters of all scripts have the same baseline."""
        whole, tall = self.get_size_inches()
        self.text(left / whole, 1 - (top + _ASCENT * style["fontsize"] / 72) / tall, text, va="baseline", **style)

    def measure(self, texts: Iterable[str], size: float) -> list[float]:
        """Return the width of each text in inches."""
        renderer = self.canvas.get_renderer()  # type: ignore[attr-defined]
        artist = self.text(0, 0, "", fontsize=size)
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
            while self.measure([word], size)[0] > width:
                ends = range(2, len(word) + 1)
                end = 1 + bisect_right(ends, width, key=lambda end, word=word: self.measure([word[:end]], size)[0])  # type: ignore[misc]
                lines.append(word[:end])
                word = word[end:]
            line = word
        return [*lines, line]

    def add_bar(
        self, place: tuple[float, float, float, float], mappable: ScalarMappable, name: str, *, ticks: int = 0,
        form: Callable[[float], str] = tick,
    ) -> Axes:  # fmt: skip
        """Draw the colour bar in a panel at a place (left, top, width, height); it is horizontal if it is wider than high."""
        axes, (_, _, width, height) = self.add_panel(*place), place
        lying = width > height
        bar = self.colorbar(mappable, cax=axes, orientation="horizontal" if lying else "vertical")
        bar.set_ticks(np.linspace(*mappable.get_clim(), ticks or (3 if height < 1.5 else 5)).tolist())
        axes.tick_params(labelsize=SMALL, length=2, color=palette().frame, labelcolor=palette().grey)
        (axes.xaxis if lying else axes.yaxis).set_major_formatter(lambda value, _: form(value))
        bar.outline.set_linewidth(0.4)
        if lying:
            axes.text(-0.5 / width, 0.5, name, transform=axes.transAxes, va="center", fontsize=SMALL, color=palette().grey)
        else:
            bar.set_label(name, fontsize=SMALL, color=palette().grey)
        return axes


@contextmanager
def begin(what: str, texts: Iterable[str], path: str | Path | None) -> Iterator[Picture]:
    """Yield an empty picture in our style; write it to `path`, if one is given, when the context is left.

    `what` is the kind of picture, for errors and warnings, and `texts` are all its texts that may need other fonts.
    """
    ending = "" if path is None else Path(path).suffix.lower()
    if path is not None and ending not in PICTURES:
        raise RequestError(f"{path}: a {what} is drawn as {' '.join(PICTURES)}, not as '{ending}'{nearest(ending, PICTURES)}")
    families, missing = fonts.families(texts)
    complaint = []
    if missing and ending != ".svg":  # an SVG contains text, which is drawn with the viewer's fonts
        complaint = [
            f"No installed font has {len(missing)} of the characters; boxes are drawn in their place. "
            "Install a font that has them (Noto Sans CJK has Chinese, Japanese and Korean), or save as .svg or .html."
        ]
        shown = " ".join(missing[:12]) + (" …" if len(missing) > 12 else "")
        warnings.warn(f"{what}: {complaint[0]} Missing: {shown}", fonts.FontWarning, stacklevel=4)
    ours = palette()
    colours: Any = {"text.color": ours.ink, "axes.edgecolor": ours.frame, "axes.facecolor": "none", "font.family": families}
    with matplotlib.rc_context({**_STYLE, **colours}), _quiet_about_glyphs():
        figure = Picture(complaint)
        yield figure
        if path is not None:
            disk.save(path, _encode(figure, ending))


@contextmanager
def _quiet_about_glyphs() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # `begin` warns once, with advice
        yield


def _encode(picture: Picture, ending: str) -> bytes:
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE), _quiet_about_glyphs():
        picture.savefig(buffer, format=ending[1:], dpi=picture.dpi, metadata=_METADATA[ending])
    return buffer.getvalue()


def colours(values: np.ndarray, scale: float) -> ScalarMappable:
    """Return the colour map and its range: from zero to `scale`, or from −`scale` if there are negative values."""
    positive = colour.ramp(palette().positive, 256)
    if (values >= 0).all():
        return ScalarMappable(Normalize(0, scale), ListedColormap(positive, "regard"))
    both = np.concatenate([colour.ramp(palette().negative, 256)[::-1], positive[1:]])
    return ScalarMappable(Normalize(-scale, scale), ListedColormap(both, "regard_signed"))


def draw_matrix(
    figure: Picture,
    matrix: np.ndarray,
    shades: ScalarMappable,
    labels: tuple[Sequence[str], Sequence[str]],
    *,
    cell: tuple[float, float],
    names: tuple[str, str, str],
    angle: int,
    size: float,
    unknown: tuple[Sequence[bool], Sequence[bool]] = ((), ()),
    numbers: Sequence[str] = (),
    number_size: float = 7.5,
) -> Axes:
    """Draw a matrix as coloured cells with its words, the names of its sides, and the colour bar; return its axes.

    Args:
        figure: The picture.
        matrix: Values of the cells.
        shades: Their colours; see `colours`.
        labels: Words of the rows and of the columns; may be empty.
        cell: Width and height of a cell in inches.
        names: Names of the rows, of the columns, and of the values.
        angle: Angle of the words of the columns: 0, 45 or 90 degrees.
        size: Font size of the words.
        unknown: For each word of the rows and of the columns, whether it is not in the model's vocabulary; may be empty.
        numbers: Text of each cell, row by row; may be empty.
        number_size: Font size of the numbers.
    """
    (rows, columns), (width, height) = matrix.shape, (matrix.shape[1] * cell[0], matrix.shape[0] * cell[1])
    axes = figure.add_panel(0, 0, width, height)
    lines: dict[str, Any] = {"edgecolors": palette().faint, "linewidth": 0.4} if min(cell) >= 0.1 else {}
    edges = np.arange(columns + 1), np.arange(rows + 1)
    low, high = shades.get_clim()
    axes.pcolormesh(*edges, matrix, cmap=shades.cmap, vmin=low, vmax=high, rasterized=matrix.size > 2_500, **lines)
    axes.set_ylim(rows, 0)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, pad=4, labelsize=size, labelcolor=palette().ink)
    slanted: dict[str, Any] = {
        "rotation": angle,
        "rotation_mode": "anchor",
        "ha": "left",
        "va": "center" if angle == 90 else "bottom",
    }
    axes.set_xticks(np.arange(len(labels[1])) + 0.5, labels[1], **(slanted if angle else {}))
    axes.set_yticks(np.arange(len(labels[0])) + 0.5, labels[0])
    underline_unknown(axes.get_yticklabels(), unknown[0])
    underline_unknown(axes.get_xticklabels(), unknown[1])
    quiet: dict[str, Any] = {"fontsize": max(8.0, size), "color": palette().grey, "style": "italic"}
    axes.set_ylabel(names[0], labelpad=7, **quiet)
    axes.set_xlabel(names[1], labelpad=9, **quiet)
    for (row, column), text in zip(np.ndindex(matrix.shape), numbers, strict=False):
        ink = colour.ink(np.array(shades.to_rgba(matrix[row, column])[:3]))
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=number_size, color=ink)
    figure.add_bar((width + 0.18, 0, BAR, min(max(height, 0.9), 3.0)), shades, names[2])
    return axes


def draw_borders(axes: Axes, view: WordView, *, turned: bool, width: float) -> None:
    """Draw a line at each border of a segment inside a matrix; `turned` says that the columns run from right to left."""
    rows, columns = view.matrix.shape
    style: Any = {"color": palette().ink, "linewidth": width}
    for end in {edge for span in view.column_spans for edge in (span.start, span.end)} - {0, columns}:
        axes.axvline(columns - end if turned else end, **style)
    for end in {edge for span in view.row_spans for edge in (span.start, span.end)} - {0, rows}:
        axes.axhline(end, **style)


def underline_unknown(texts: Iterable[Text], unknown: Sequence[bool]) -> None:
    """Underline words that are not in the model's vocabulary with dots; `texts` may have the same words twice."""
    for text, is_unknown in zip(texts, [*unknown, *unknown], strict=False):
        if is_unknown:
            # Matplotlib has no underlines. The box of a text turns with it, so its lower edge is drawn.
            style: Any = {"boxstyle": _lower_edge, "linestyle": (0, (1, 1.5)), "linewidth": 1.0, "clip_on": False}
            text.set_bbox({**style, "edgecolor": text.get_color(), "facecolor": "none"})


def _lower_edge(left: float, bottom: float, width: float, height: float, scale: float) -> Outline:
    return Outline([(left, bottom), (left + width, bottom)])


def draw_empty(what: str, reason: str, foot: Sequence[str] | None, path: str | Path | None, title: str) -> Picture:
    """Draw a picture that says why there is nothing to draw; the arguments are those of `begin` and `Picture.finish`."""
    with begin(what, [reason, *(foot or ()), title], path) as figure:
        axes = figure.add_panel(0, 0, _EMPTY_WIDTH - 2 * EDGE, 0.5)
        axes.set_axis_off()
        axes.text(0.5, 0.5, reason, ha="center", va="center", color=palette().grey, style="italic")
        figure.finish(title, foot)
    return figure
