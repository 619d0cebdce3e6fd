"""The heatmap as PNG, SVG or PDF: columns are source words, rows are output words.

The layout in inches is computed from the measured size of the words, so that a text of two or of a hundred words is readable
and nothing is cut off.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable

from regard.errors import RequestError
from regard.records import AttentionRecord
from regard.records.views import sides
from regard.viz import colour, picture
from regard.viz.caption import empty, note, write
from regard.viz.labels import label, runs_right_to_left
from regard.viz.numbers import decimals, fixed, greatest
from regard.viz.picture import EDGE, GREY, INK, SMALL_LINE, Picture

_NAMES = {"source": "source", "target": "output"}
_GAP, _BAR, _BAR_ROOM, _BAR_LEAST, _NAME_ROOM = 0.18, 0.14, 0.75, 0.98, 0.24  # inches
_MIN_WIDTH = 4.4
_TITLE, _TITLE_LINE = 11.0, 0.22
_MAX_VALUES, _MAX_VECTOR_CELLS = 260, 2_500
_MOST_PLACES = 3
"""Maximum number of decimal places of weights in cells. Longer numbers would not fit, so cells then have only colours."""


@dataclass(frozen=True)
class _Layout:
    """Layout of the picture, in inches from its top left corner."""

    width: float
    height: float
    names_left: float
    names_top: float
    left: float
    top: float
    cell_width: float
    cell_height: float
    columns: int
    rows: int
    angle: int
    font_size: float
    title: list[str]
    print_lines: list[str]

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
    special: bool = False,
    caption: bool = True,
    cell: float | None = None,
    dpi: float = 150,
) -> Picture:
    """Draw the weights of a record over words.

    Args:
        record: The record.
        path: File to write, as .png, .svg or .pdf; by default, no file is written.
        site: Site to draw; by default `cross`, `pool`, or the only site.
        head: Head to draw, from 0; by default the mean over heads.
        title: Text at the top; by default, none.
        special: If True, special tokens are rows and columns like words.
        caption: If False, the picture has no text below it.
        cell: Side of a cell in inches, from 0.05 to 5; by default, it depends on the number of words.
        dpi: Pixels per inch; it is reduced if a side would have more than 30,000 pixels.

    Returns:
        The figure. Weights are not normalised, even if rows do not sum to one; the caption says how much weight is not drawn.
        Columns run from right to left if their words do.

    Raises:
        RequestError: If there is no such site or head, the file has another ending, or `cell` or `dpi` (10 to 2400) is out of
            range.
        DataError: If the file cannot be written.
    """
    ending = picture.check("heatmap", path, dpi)
    if cell is not None and not 0.05 <= cell <= 5:
        raise RequestError(f"heatmap: cell is {cell}, expected 0.05 to 5 inches")
    site = record.site(site)
    view = record.view(site, head, special=special)
    if not view.matrix.size:
        told = [*_reference(record), *note(record)] if caption else []
        return picture.draw_empty("heatmap", [empty(record, site), *told], path, title, dpi)
    prints = [*_reference(record), *write(record, [site], [view], head)] if caption else []
    rows, columns = ([label(word) for word in words] for words in (view.rows, view.columns))
    matrix = view.matrix
    if runs_right_to_left(columns):
        columns, matrix = columns[::-1], matrix[:, ::-1]
    families, complaint = picture.find_fonts("heatmap", [*rows, *columns, *prints, title or ""], ending)
    with picture.blank(families) as figure:
        layout = _lay_out(figure, rows, columns, prints + complaint * caption, title, cell)
        figure.resize(layout.width, layout.height, dpi)
        _draw_map(figure, layout, matrix, rows, columns)
        _draw_names(figure, layout, site)
    figure.save(path)
    return figure


def _reference(record: AttentionRecord) -> list[str]:
    kind = "True label" if record.is_classification else "Reference"
    return [] if record.reference is None else [f"{kind}: {label(record.reference, 400)}"]


def _lay_out(
    figure: Picture, rows: list[str], columns: list[str], prints: list[str], title: str | None, cell: float | None
) -> _Layout:
    most = max(len(rows), len(columns))
    font_size, side = next(x[1:] for x in ((12, 10, 0.44), (30, 9, 0.28), (60, 8, 0.2), (10**9, 7, 0.165)) if most <= x[0])
    side = cell or side
    line = font_size * 1.2 / 72
    widest_row, widest_column = max(figure.measure(rows, font_size)), max(figure.measure(columns, font_size))
    cell_width = max(side, widest_column + 0.14)
    angle = 0 if cell_width <= max(side, 0.9) and len(columns) <= 16 else 45 if len(columns) <= 40 else 90
    if angle:
        cell_width = side
    radians = math.radians(angle)
    labels = widest_column * math.sin(radians) + line * math.cos(radians) + 0.08
    overhang = max(0.0, widest_column * math.cos(radians) - cell_width / 2) if 0 < angle < 90 else 0.0
    left = EDGE + _NAME_ROOM + widest_row + 0.1
    right = max(_GAP + _BAR + _BAR_ROOM, overhang) + EDGE
    map_width = len(columns) * cell_width
    width = max(_MIN_WIDTH, left + map_width + right)
    left += (width - left - map_width - right) / 2
    heads = figure.wrap(label(title, 200), width - 2 * EDGE, _TITLE) if title else []
    names_top = EDGE + len(heads) * _TITLE_LINE + (0.1 if heads else 0.0)
    top = names_top + _NAME_ROOM + labels
    lines = [part for text in prints for part in figure.wrap(text, width - 2 * EDGE)]
    height = top + max(len(rows) * side, _BAR_LEAST) + 0.16 + len(lines) * SMALL_LINE + EDGE
    names_left = left - widest_row - 0.1 - _NAME_ROOM
    place = (names_left, names_top, left, top, cell_width, side)
    return _Layout(width, height, *place, len(columns), len(rows), angle, font_size, heads, lines)


def _draw_map(figure: Picture, layout: _Layout, matrix: np.ndarray, rows: list[str], columns: list[str]) -> None:
    axes = figure.add_axes(figure.box(layout.left, layout.top, layout.map_width, layout.map_height))
    colours, norm = picture.colours(matrix, colour.full_scale(matrix))
    places = decimals(greatest(matrix))
    few = matrix.size <= _MAX_VALUES and min(layout.cell_width, layout.cell_height) >= 0.26 and places <= _MOST_PLACES
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
    axes.tick_params(length=0, pad=4, labelsize=layout.font_size, labelcolor=INK)
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
            axes.text(column + 0.5, row + 0.5, fixed(float(weight), places), ha="center", va="center", fontsize=7.5, color=ink)
    height = min(max(layout.map_height, _BAR_LEAST - 0.08), 3.0)
    place = (layout.left + layout.map_width + _GAP, layout.top, _BAR, height)
    picture.draw_bar(figure, place, ScalarMappable(norm, colours), "weight", ticks=3 if height < 1.5 else 5)


def _draw_names(figure: Picture, layout: _Layout, site: str) -> None:
    row_name, column_name = (_NAMES[side] for side in sides(site))
    quiet: dict[str, Any] = {"fontsize": layout.font_size, "color": GREY, "style": "italic"}
    figure.write_title(layout.title, _TITLE, _TITLE_LINE, centred=True)
    figure.write(column_name, layout.left + layout.map_width / 2, layout.names_top, ha="center", **quiet)
    middle = layout.top + layout.map_height / 2
    figure.write(row_name, layout.names_left, middle, ha="left", va="center", rotation=90, **quiet)
    figure.write_foot(layout.print_lines)
