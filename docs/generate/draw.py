"""Draw matrices in the colours of `regard.viz`, without pyplot. The same numbers give the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from PIL import Image

from regard.viz import colour

_STYLE: Any = {"font.family": "DejaVu Sans", "font.size": 9.0, "axes.edgecolor": "#999999", "text.usetex": False}
_INK, _GREY, _WRONG, _OTHERWISE = "#111111", "#555555", "#b2182b", "#c26a00"
_DPI = 140
_EDGE, _ROW_LABELS, _TITLE, _COLUMN_LABELS, _BETWEEN = 0.1, 0.62, 0.24, 0.22, 0.14  # inches


@dataclass(frozen=True)
class Panel:
    """A matrix, its title, and the names of its rows and columns."""

    title: str
    matrix: np.ndarray
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    wrong: frozenset[int] = frozenset()
    """Rows whose names are red."""
    otherwise: frozenset[int] = frozenset()
    """Rows whose names are orange."""
    scale: float = 1.0
    """Value that gets the darkest colour; `-scale` gets the darkest colour for negative numbers."""
    form: str = ""
    """Format of the numbers in the cells, such as `.2f`; if empty, no numbers are drawn. An exact zero is drawn as 0."""


def draw(
    panels: Sequence[Sequence[Panel]], path: Path, *, cell: float = 0.21, rows_name: str = "", columns_name: str = ""
) -> None:
    """Draw rows of panels, each as large as its matrix, and write a PNG.

    Args:
        panels: Rows of panels; the matrices of panels in the same column have the same width.
        path: Path of the PNG file.
        cell: Side of a cell in inches.
        rows_name: Name of the matrix rows, drawn to the left of each row of panels.
        columns_name: Name of the matrix columns, drawn above the column names of each panel.
    """
    widths = [max(p.matrix.shape[1] for p in column) * cell for column in zip(*panels, strict=True)]
    heights = [max(p.matrix.shape[0] for p in row) * cell for row in panels]
    labels = [
        max(0.12, *(0.075 * len(name) + 0.1 for p in column for name in p.rows or [""])) for column in zip(*panels, strict=True)
    ]
    head = _TITLE + (_COLUMN_LABELS if any(p.columns for row in panels for p in row) else 0.02) + (0.17 if columns_name else 0)
    left = _EDGE + (0.2 if rows_name else 0)
    width = left + sum(widths) + sum(labels) + _BETWEEN * len(widths) + _EDGE
    height = _EDGE + sum(h + head for h in heights) + _BETWEEN * (len(heights) - 1) + _EDGE
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), dpi=_DPI, facecolor="white")
        top = _EDGE
        for row, room in zip(panels, heights, strict=True):
            x = left
            if rows_name:
                figure.text(
                    _EDGE / width,
                    1 - (top + head + room / 2) / height,
                    rows_name,
                    rotation=90,
                    va="center",
                    color=_GREY,
                    style="italic",
                )
            for number, panel in enumerate(row):
                x += labels[number]
                size = (panel.matrix.shape[1] * cell, panel.matrix.shape[0] * cell)
                box = (x / width, 1 - (top + head + size[1]) / height, size[0] / width, size[1] / height)
                _map(figure.add_axes(box), panel, large=cell >= 0.3)
                middle = (x + size[0] / 2) / width
                figure.text(middle, 1 - top / height, panel.title, ha="center", va="top", fontsize=9.5, color=_INK)
                if columns_name:
                    figure.text(
                        middle,
                        1 - (top + _TITLE) / height,
                        columns_name,
                        ha="center",
                        va="top",
                        color=_GREY,
                        style="italic",
                        fontsize=8,
                    )
                x += widths[number] + _BETWEEN
            top += head + room + _BETWEEN
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Save the figure as a PNG with a palette of 128 colours, which halves the size of the file."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    picture.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def _map(axes: Axes, panel: Panel, *, large: bool) -> None:
    positive, negative = colour.ramp(colour.LIGHT, 128), colour.ramp(colour.LIGHT_NEGATIVE, 128)[::-1]
    colours = ListedColormap(np.concatenate([negative, positive[1:]]), "regard_signed")
    norm = Normalize(-panel.scale, panel.scale)
    (rows, columns), matrix = panel.matrix.shape, panel.matrix
    axes.pcolormesh(
        np.arange(columns + 1), np.arange(rows + 1), matrix, cmap=colours, norm=norm, edgecolors="#dddddd", linewidth=0.5
    )
    axes.set_ylim(rows, 0)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2.5, labelcolor=_INK)
    axes.set_xticks(np.arange(len(panel.columns)) + 0.5, panel.columns)
    axes.set_yticks(np.arange(len(panel.rows)) + 0.5, panel.rows)
    for number, name in enumerate(axes.get_yticklabels()):
        if number in panel.wrong:
            name.set_color(_WRONG)
        elif number in panel.otherwise:
            name.set_color(_OTHERWISE)
    if panel.form:
        for (row, column), number in np.ndenumerate(matrix):
            ink = colour.ink(np.array(colours(norm(number))[:3]))
            size = 8 if large else 6.5
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{number:{panel.form}}" if number else "0",
                ha="center",
                va="center",
                fontsize=size,
                color=ink,
            )
