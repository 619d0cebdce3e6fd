"""The confusion matrix as PNG, SVG or PDF.

Rows are true labels, columns are predicted labels, and colours show the shares of a row.

With few labels, cells contain counts. With many labels, letters are smaller and counts are left out; with very many, names are
left out, too. The caption lists the most frequent confusions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from numpy.typing import ArrayLike

from regard.errors import RequestError, ShapeError
from regard.plurals import counted
from regard.viz import colour, picture
from regard.viz.labels import isolated, label
from regard.viz.numbers import percent
from regard.viz.picture import EDGE, GREY, INK, SMALL_LINE, Picture

_SIZES = ((6, 10.0, 0.62), (14, 9.0, 0.44), (30, 8.0, 0.3), (60, 6.5, 0.14), (120, 5.5, 0.1), (250, 4.5, 0.08))
"""Font size in points and side of a cell in inches, by the maximum number of labels. With more labels, names are left out."""
_ROOMY, _WIDEST = 6, 1.2
"""Maximum number of labels for which cells are widened to fit horizontal names, and their maximum width in inches."""
_FIGURES_FROM, _NAMELESS, _LARGEST = 0.29, 250, 20.0
_CAPTION = (
    "The colours of a row show, for the texts with this true label, the share of each predicted label. They do not show why "
    "the model confuses labels."
)
_MIN_WIDTH, _NAME_ROOM, _BAR, _BAR_ROOM, _GAP = 4.6, 0.24, 0.14, 0.7, 0.18


@dataclass(frozen=True)
class _Layout:
    """Layout of the picture in inches from the top left corner."""

    width: float
    height: float
    left: float
    top: float
    cell: float
    side: float
    upright: bool
    names_left: float
    font_size: float
    title: list[str]
    foot: list[str]


def draw(
    counts: ArrayLike,
    names: Sequence[str],
    path: str | Path | None = None,
    *,
    title: str | None = None,
    caption: bool = True,
    dpi: float = 150,
) -> Picture:
    """Draw how often each true label (row) was predicted as each label (column).

    Args:
        counts: (C,C) Whole numbers, 0 or more.
        names: C labels, in the order of rows and columns.
        path: File to write, as .png, .svg or .pdf; by default, no file is written.
        title: Text at the top; by default, the accuracy and the number of texts.
        caption: If False, the picture has no text below it.
        dpi: Pixels per inch; it is reduced if a side would have more than 30,000 pixels.

    Raises:
        ShapeError: If the counts are not square, or do not match the names.
        RequestError: If there are no labels, a count is not a whole number from 0, the file has another ending, or `dpi` is not
            from 10 to 2400.
        DataError: If the file cannot be written.
    """
    ending = picture.check("confusion matrix", path, dpi)
    table = _checked(counts, names)
    shown = [label(name, 32) for name in names]
    total = int(table.sum())
    accuracy = f"Accuracy {np.trace(table) / total:.1%}, " if total else ""
    top = label(f"{accuracy}{counted(total, 'text')}" if title is None else title, 200)
    nameless = [f"Labels are not written, because there are more than {_NAMELESS}."] if len(names) > _NAMELESS else []
    foot = [_CAPTION, *nameless, *_in_words(table, names)] if caption else []
    families, complaint = picture.find_fonts("confusion matrix", [*shown, *foot, top], ending)
    with picture.blank(families) as figure:
        layout = _lay_out(figure, shown, top, foot + complaint * caption)
        figure.resize(layout.width, layout.height, dpi)
        _draw_map(figure, layout, table, shown)
        _draw_names(figure, layout)
    figure.save(path)
    return figure


def most_confused(counts: ArrayLike, limit: int = 5) -> list[tuple[int, int]]:
    """Return the pairs (true label, predicted label) with the largest counts off the diagonal, the largest first.

    Pairs with a count of zero are left out.
    """
    errors = np.array(counts)
    np.fill_diagonal(errors, 0)
    order = np.argsort(-errors, axis=None, kind="stable")[:limit]
    return [
        (int(row), int(column))
        for row, column in zip(*np.unravel_index(order, errors.shape), strict=True)
        if errors[row, column]
    ]


def _checked(counts: Any, names: Sequence[str]) -> np.ndarray:
    result = np.asarray(counts)
    if not len(names):
        raise RequestError("confusion matrix: there are no labels, expected at least one")
    if result.shape != (len(names), len(names)):
        raise ShapeError(
            f"confusion matrix: counts has shape {result.shape}, expected ({len(names)}, {len(names)}): a row and a column for "
            f"each of the {len(names)} names"
        )
    if result.dtype.kind not in "iu" or (result < 0).any():
        raise RequestError(f"confusion matrix: counts must be whole numbers from 0, got {result.dtype}, minimum {result.min()}")
    return result


def _in_words(counts: np.ndarray, names: Sequence[str]) -> list[str]:
    pairs = most_confused(counts, 5 if len(names) <= 30 else 10)
    if not pairs:
        return ["No text got a wrong label."] if counts.any() else ["There are no texts."]
    shown = [isolated(label(name, 60)) for name in names]
    lines = [
        f"{counts[row, column]} × {shown[row]} → {shown[column]} "
        f"({percent(counts[row, column] / counts[row].sum())} of {shown[row]})"
        for row, column in pairs
    ]
    return ["Most often confused, true label → predicted label:", *lines] if len(names) > 2 else lines


def _lay_out(figure: Picture, names: Sequence[str], title: str, foot: Sequence[str]) -> _Layout:
    font_size, cell = next((x[1:] for x in _SIZES if len(names) <= x[0]), (8.0, _LARGEST / len(names)))
    widest = max(figure.measure(names, font_size)) if len(names) <= _NAMELESS else 0.0
    if len(names) <= _ROOMY and widest + 0.14 <= _WIDEST:
        cell = max(cell, widest + 0.14)
    upright = widest + 0.1 > cell
    side = cell * len(names)
    heads = (widest if upright else font_size * 1.2 / 72) + 0.1
    left = EDGE + _NAME_ROOM + widest + 0.1
    width = max(_MIN_WIDTH, left + side + _GAP + _BAR + _BAR_ROOM)
    left += (width - left - side - _GAP - _BAR - _BAR_ROOM) / 2
    lines = [part for text in foot for part in figure.wrap(text, width - 2 * EDGE)]
    title_lines = figure.wrap(title, width - 2 * EDGE, 11)
    top = EDGE + 0.22 * len(title_lines) + 0.08 + _NAME_ROOM + heads
    height = top + max(side, 0.9) + 0.16 + len(lines) * SMALL_LINE + EDGE
    return _Layout(
        width, height, left, top, cell, side, upright, left - widest - 0.1 - _NAME_ROOM, font_size, title_lines, lines
    )


def _draw_map(figure: Picture, layout: _Layout, counts: np.ndarray, names: Sequence[str]) -> None:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    shades, norm = picture.colours(shares, 1.0)
    axes = figure.add_axes(figure.box(layout.left, layout.top, layout.side, layout.side))
    corners = np.arange(len(names) + 1)
    lines: dict[str, Any] = {"edgecolors": "#e4e4e4", "linewidth": 0.4} if layout.cell >= 0.1 else {}
    axes.pcolormesh(corners, corners, shares, cmap=shades, norm=norm, rasterized=counts.size > 2_500, **lines)
    axes.set_ylim(len(names), 0)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4, labelsize=layout.font_size, labelcolor=INK)
    named = len(names) <= _NAMELESS
    places = np.arange(len(names) if named else 0) + 0.5
    turned: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "ha": "left", "va": "center"} if layout.upright else {}
    axes.set_xticks(places, names if named else [], parse_math=False, **turned)
    axes.set_yticks(places, names if named else [], parse_math=False)
    if layout.cell >= _FIGURES_FROM:
        size = 9.0 if layout.cell > 0.5 else 7.5 if layout.cell > 0.4 else 6.0
        size = min(size, layout.cell * 72 * 1.5 / len(str(counts.max())))
        for (row, column), count in np.ndenumerate(counts):
            ink = colour.ink(np.array(shades(norm(shares[row, column]))[:3]))
            if count or len(names) <= _ROOMY:
                axes.text(column + 0.5, row + 0.5, str(count), ha="center", va="center", fontsize=size, color=ink)
    tall = min(max(layout.side, 0.9), 3.0)
    place = (layout.left + layout.side + _GAP, layout.top, _BAR, tall)
    picture.draw_bar(figure, place, ScalarMappable(norm, shades), "share of the row", ticks=3 if tall < 1.5 else 5)


def _draw_names(figure: Picture, layout: _Layout) -> None:
    figure.write_title(layout.title, 11, 0.22)
    quiet: dict[str, Any] = {"fontsize": max(8.0, layout.font_size), "color": GREY, "style": "italic"}
    middle = layout.side / 2
    figure.write("predicted", layout.left + middle, EDGE + 0.22 * len(layout.title) + 0.08, ha="center", **quiet)
    figure.write("true", layout.names_left, layout.top + middle, ha="left", va="center", rotation=90, **quiet)
    figure.write_foot(layout.foot)
