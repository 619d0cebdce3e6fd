"""The heatmap as PNG, SVG or PDF: source words across the top, output words down the side.

Everything is laid out in inches from the measured size of the words, so that two words and a hundred are both readable and
nothing is cut off. pyplot is not used, and the same record gives the same bytes.
"""

import io
import math
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure

from regard.errors import RequestError, nearest
from regard.record import AttentionRecord
from regard.record.files import write_atomically
from regard.record.views import sides
from regard.viz import colour, fonts
from regard.viz.labels import label

_FORMATS = (".png", ".svg", ".pdf")
_NAMES = {"source": "source", "target": "output"}
_GREY, _SMALL = "#555555", 7.0
_EDGE, _GAP, _BAR, _BAR_ROOM, _NAME_ROOM = 0.12, 0.18, 0.14, 0.75, 0.24  # inches
_MIN_WIDTH, _MAX_PIXELS = 4.4, 30_000
_MAX_VALUES, _MAX_VECTOR_CELLS = 260, 2_500
_METADATA: dict[str, dict[str, Any]] = {  # without dates and versions: the same record, the same bytes
    ".png": {"Software": "regard"},
    ".svg": {"Creator": "regard", "Date": None},
    ".pdf": {"Creator": "regard", "Producer": "regard", "CreationDate": None},
}
_STYLE: Any = {
    "font.size": 10.0,
    "text.color": "#111111",
    "text.usetex": False,
    "axes.edgecolor": "#999999",
    "axes.unicode_minus": True,
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


class Heatmap(Figure):
    """A figure that a notebook shows, pyplot or not."""

    def _repr_png_(self) -> bytes:
        return _encode(self, ".png")


@dataclass(frozen=True)
class _Layout:
    """Inches, from the top left corner of the picture."""

    width: float
    height: float
    names_left: float
    left: float
    top: float
    cell_width: float
    cell_height: float
    columns: int
    rows: int
    angle: int
    font_size: float
    print_lines: list[str]

    def box(self, left: float, top: float, width: float, height: float) -> tuple[float, float, float, float]:
        return left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height

    @property
    def map_width(self) -> float:
        return self.columns * self.cell_width

    @property
    def map_height(self) -> float:
        return self.rows * self.cell_height


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    title: str | None = None,
    cell: float | None = None,
    dpi: float = 150,
) -> Heatmap:
    """Draw the weights of a record over words.

    Args:
        record: What to draw.
        path: Where to write it, as .png, .svg or .pdf; nowhere if left out.
        site: Which weights; `cross`, or the only site, if left out.
        head: Which head, from 0; the mean over heads if left out.
        title: Put on top.
        cell: Side of a cell in inches; if left out, by the number of words.
        dpi: Pixels an inch, less where a picture would have more than 30,000 a side.

    Returns:
        The figure. A row of weights that sums to less than one is drawn as it is, and the small print says so.

    Raises:
        RequestError: If there is no such site, head or ending, or no word to draw.
        DataError: If the file cannot be written.
    """
    ending = "" if path is None else Path(path).suffix.lower()
    if (ending and ending not in _FORMATS) or (path is not None and not ending):
        raise RequestError(f"{path}: a heatmap is drawn as {' '.join(_FORMATS)}, not as '{ending}'{nearest(ending, _FORMATS)}")
    if (cell is not None and not 0.05 <= cell <= 5) or not 10 <= dpi <= 2400:
        raise RequestError(f"heatmap: cell is {cell} and dpi {dpi}, expected 0.05 to 5 inches and 10 to 2400")
    site = record.site(site)
    matrix = record.matrix(site, head)
    if not matrix.size:
        raise RequestError(f"heatmap: the record has {len(matrix)} output and {matrix.shape[1]} source words: nothing to draw")
    rows, columns = ([label(word) for word in words] for words in record.words(site))
    prints = _small_print(record, site, head)
    families, missing = fonts.families([*rows, *columns, *prints, title or ""])
    if missing and ending != ".svg":  # an SVG keeps its text, and is drawn with the fonts of whoever looks at it
        prints.append(_complain(missing))
    with matplotlib.rc_context({**_STYLE, "font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # said above, once, with a way out
        figure = Heatmap(facecolor="white")
        FigureCanvasAgg(figure)
        layout = _lay_out(figure, rows, columns, prints, title, cell)
        figure.set_size_inches(layout.width, layout.height)
        figure.set_dpi(min(dpi, _MAX_PIXELS / max(layout.width, layout.height)))
        _draw_map(figure, layout, matrix, rows, columns)
        _draw_names(figure, layout, site, title)
    if path is not None:
        write_atomically(path, _encode(figure, ending))
    return figure


def _encode(figure: Figure, ending: str) -> bytes:
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format=ending[1:], dpi=figure.dpi, metadata=_METADATA[ending])
    return buffer.getvalue()


def _complain(missing: str) -> str:
    shown = " ".join(missing[:12]) + (" …" if len(missing) > 12 else "")
    text = (
        f"No installed font has {len(missing)} of the characters; boxes stand for them. "
        "Install one that does (Noto Sans CJK has Chinese, Japanese and Korean), or save as .svg or .html."
    )
    warnings.warn(f"heatmap: {text} Missing: {shown}", fonts.FontWarning, stacklevel=3)
    return text


def _small_print(record: AttentionRecord, site: str, head: int | None) -> list[str]:
    lines = []
    if record.reference is not None:
        lines.append(f"Reference: {label(record.reference, 400)}")
    heads = record.num_heads(site)
    where = f"Weights: {site}"
    if heads is not None:
        where += f", mean of {heads} heads" if head is None else f", head {head} of {heads}"
    trimmed = float(record.trimmed_mass(site, head).max(initial=0.0))
    if trimmed >= 0.005:
        where += f". Up to {trimmed:.2f} of a row fell on special symbols and is not shown"
    lines.append(where + ".")
    return [*lines, label(record.note, 600)] if record.note.strip() else lines


def _measure(figure: Figure, texts: Sequence[str], size: float) -> list[float]:
    """Widths in inches."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    artist = figure.text(0, 0, "", fontsize=size, parse_math=False)
    widths = []
    for text in texts:
        artist.set_text(text)
        widths.append(artist.get_window_extent(renderer).width / figure.dpi)
    artist.remove()
    return widths


def _lay_out(
    figure: Figure, rows: list[str], columns: list[str], prints: list[str], title: str | None, cell: float | None
) -> _Layout:
    most = max(len(rows), len(columns))
    font_size, side = next(x[1:] for x in ((12, 10, 0.44), (30, 9, 0.28), (60, 8, 0.2), (10**9, 7, 0.165)) if most <= x[0])
    side = cell or side
    line = font_size * 1.2 / 72
    widest_row, widest_column = max(_measure(figure, rows, font_size)), max(_measure(figure, columns, font_size))
    cell_width = max(side, widest_column + 0.14)
    angle = 0 if cell_width <= max(side, 0.9) and len(columns) <= 16 else 45 if len(columns) <= 40 else 90
    if angle:
        cell_width = side
    radians = math.radians(angle)
    labels = widest_column * math.sin(radians) + line * math.cos(radians) + 0.08
    overhang = max(0.0, widest_column * math.cos(radians) - cell_width / 2) if 0 < angle < 90 else 0.0
    left = _EDGE + _NAME_ROOM + widest_row + 0.1
    right = max(_GAP + _BAR + _BAR_ROOM, overhang) + _EDGE
    map_width = len(columns) * cell_width
    width = max(_MIN_WIDTH, left + map_width + right)
    left += (width - left - map_width - right) / 2
    top = _EDGE + (0.32 if title else 0) + _NAME_ROOM + labels
    lines = [part for text in prints for part in _wrap(text, width - 2 * _EDGE)]
    height = top + len(rows) * side + 0.16 + len(lines) * _SMALL * 1.35 / 72 + _EDGE
    names_left = left - widest_row - 0.1 - _NAME_ROOM
    return _Layout(width, height, names_left, left, top, cell_width, side, len(columns), len(rows), angle, font_size, lines)


def _wrap(text: str, width: float) -> list[str]:
    """Break small print to a width in inches. Characters count by their usual width, and endless words are cut."""
    room = width / (_SMALL * 0.58 / 72)
    lines, used = [""], 0.0
    for word in text.split():
        size = 0.0
        pieces = [""]
        for character in word:
            step = 1.75 if unicodedata.east_asian_width(character) in "WF" else 1.0
            if size + step > room:
                pieces.append("")
                size = 0.0
            pieces[-1] += character
            size += step
        if lines[-1] and (len(pieces) > 1 or used + 1 + size > room):
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + pieces[0]
        lines.extend(pieces[1:])
        used = used + 1 + size if len(lines[-1]) > len(pieces[-1]) else size
    return lines


def _colours(matrix: np.ndarray) -> tuple[ListedColormap, Normalize]:
    scale = colour.full_scale(matrix)
    positive = colour.ramp(colour.LIGHT, 256)
    if (matrix >= 0).all():
        return ListedColormap(positive, "regard"), Normalize(0, scale)
    both = np.concatenate([colour.ramp(colour.LIGHT_NEGATIVE, 256)[::-1], positive[1:]])
    return ListedColormap(both, "regard_signed"), Normalize(-scale, scale)


def _draw_map(figure: Figure, layout: _Layout, matrix: np.ndarray, rows: list[str], columns: list[str]) -> None:
    axes = figure.add_axes(layout.box(layout.left, layout.top, layout.map_width, layout.map_height))
    colours, norm = _colours(matrix)
    few = matrix.size <= _MAX_VALUES and min(layout.cell_width, layout.cell_height) >= 0.26
    axes.pcolormesh(
        np.arange(layout.columns + 1),
        np.arange(layout.rows + 1),
        matrix,
        cmap=colours,
        norm=norm,
        edgecolors="#e4e4e4",
        linewidth=0.4,
        rasterized=matrix.size > _MAX_VECTOR_CELLS,
    )
    axes.set_ylim(layout.rows, 0)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4, labelsize=layout.font_size, labelcolor="#111111")
    slanted: dict[str, Any] = {
        "rotation": layout.angle,
        "rotation_mode": "anchor",
        "ha": "left",
        "va": "center" if layout.angle == 90 else "bottom",
    }
    axes.set_xticks(np.arange(layout.columns) + 0.5, columns, parse_math=False, **(slanted if layout.angle else {}))
    axes.set_yticks(np.arange(layout.rows) + 0.5, rows, parse_math=False)
    if few:
        for (row, column), weight in np.ndenumerate(matrix):
            ink = colour.ink(np.array(colours(norm(weight))[:3]))
            axes.text(column + 0.5, row + 0.5, f"{weight:.2f}", ha="center", va="center", fontsize=7.5, color=ink)
    _draw_bar(figure, layout, ScalarMappable(norm, colours))


def _draw_bar(figure: Figure, layout: _Layout, mappable: ScalarMappable) -> None:
    height = min(max(layout.map_height, 0.9), 3.0)
    box = layout.box(layout.left + layout.map_width + _GAP, layout.top, _BAR, height)
    bar = figure.colorbar(mappable, cax=figure.add_axes(box))
    bar.set_ticks(np.linspace(*mappable.get_clim(), 3 if height < 1.5 else 5).tolist())
    bar.ax.tick_params(labelsize=_SMALL, length=2, color="#999999", labelcolor=_GREY)
    bar.ax.yaxis.set_major_formatter("{x:.3g}")
    bar.outline.set_linewidth(0.4)
    bar.set_label("weight", fontsize=_SMALL, color=_GREY)


def _draw_names(figure: Figure, layout: _Layout, site: str, title: str | None) -> None:
    def write(text: str, x: float, y: float, **style: Any) -> None:
        figure.text(x / layout.width, 1 - y / layout.height, text, parse_math=False, **style)

    row_name, column_name = (_NAMES[side] for side in sides(site))
    middle = layout.left + layout.map_width / 2
    quiet = {"fontsize": layout.font_size, "color": _GREY, "style": "italic"}
    top = _EDGE
    if title:
        write(label(title, 200), layout.width / 2, top, ha="center", va="top", fontsize=11)
        top += 0.32
    write(column_name, middle, top, ha="center", va="top", **quiet)
    write(row_name, layout.names_left, layout.top + layout.map_height / 2, ha="left", va="center", rotation=90, **quiet)
    for number, line in enumerate(layout.print_lines):
        y = layout.height - _EDGE - (len(layout.print_lines) - number) * _SMALL * 1.35 / 72
        write(line, _EDGE, y, ha="left", va="top", fontsize=_SMALL, color=_GREY)
