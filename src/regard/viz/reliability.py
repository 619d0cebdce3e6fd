"""The reliability diagram as PNG, SVG or PDF: how often a classifier is right where it says how sure it is.

Reference: Guo et al. 2017, On calibration of modern neural networks, figure 1 and equation 3.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from regard.errors import RequestError, ShapeError
from regard.viz import colour, picture
from regard.viz.labels import label
from regard.viz.picture import EDGE, FRAME, GREY, INK, SMALL, SMALL_LINE, Picture

_WIDTH, _SIDE, _COUNTS, _LEFT = 4.6, 3.4, 0.75, 0.62
_BLUE, _GAP_COLOUR = colour.LIGHT[2], colour.LIGHT_NEGATIVE[2]


def draw(
    edges: ArrayLike,
    confidence: ArrayLike,
    accuracy: ArrayLike,
    counts: ArrayLike,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    counted: str = "texts",
    dpi: float = 150,
) -> Picture:
    """Draw the bins of a calibration.

        expected calibration error = Σ_m counts_m / N · |accuracy_m − confidence_m|

    Args:
        edges: (M + 1) edges of the bins, increasing, from 0 to 1.
        confidence: (M) Mean probability of the predicted label in each bin; of an empty bin, anything.
        accuracy: (M) Share of right predictions in each bin; of an empty bin, anything.
        counts: (M) Predictions in each bin.
        path: Where to write it, as .png, .svg or .pdf; nowhere if left out.
        title: Put before the error.
        counted: What the predictions are of: decisions, where a text has one for each label.
        dpi: Pixels an inch.

    Raises:
        ShapeError: If the bins differ in number.
        RequestError: If the edges do not increase from 0 to 1, a share is out of range, or the ending is none of these.
        DataError: If the file cannot be written.
    """
    ending = picture.check("reliability diagram", path, dpi)
    places, sure, right, number = _checked(edges, confidence, accuracy, counts)
    total = int(number.sum())
    error = float((number * np.abs(right - sure)).sum() / max(total, 1))
    top = f"Expected calibration error {error:.3f}, {total:,} {counted}"
    top = f"{label(title, 200)}: {top[0].lower()}{top[1:]}" if title else top
    foot = (
        "Blue: how often predictions of such confidence were right. Red: how far that is from their mean confidence (dots); "
        "bars that end on the dashed line say truly how sure to be. Below: how many predictions there are."
    )
    families, complaint = picture.find_fonts("reliability diagram", [top], ending)
    with picture.blank(families) as figure:
        title_lines = picture.wrap(top, _WIDTH - 2 * EDGE, 10)
        lines = [part for text in (foot, *complaint) for part in picture.wrap(text, _WIDTH - 2 * EDGE)]
        upper = EDGE + 0.2 * len(title_lines) + 0.1
        lower = upper + _SIDE + 0.12
        figure.resize(_WIDTH, lower + _COUNTS + 0.5 + len(lines) * SMALL_LINE + EDGE, dpi)
        for row, line in enumerate(title_lines):
            figure.write(line, EDGE, EDGE + row * 0.2, fontsize=10)
        _draw_bins(figure.add_axes(figure.box(_LEFT, upper, _SIDE, _SIDE)), places, sure, right, number)
        _draw_counts(figure.add_axes(figure.box(_LEFT, lower, _SIDE, _COUNTS)), places, number, counted)
        figure.write_foot(lines)
    figure.save(path)
    return figure


def _checked(*arrays: Any) -> tuple[np.ndarray, ...]:
    edges, confidence, accuracy, counts = (np.asarray(array, np.float64) for array in arrays)
    if edges.ndim != 1 or len(edges) < 2 or not confidence.shape == accuracy.shape == counts.shape == (len(edges) - 1,):
        raise ShapeError(
            f"reliability diagram: edges has shape {edges.shape}, confidence {confidence.shape}, accuracy {accuracy.shape}, "
            f"counts {counts.shape}; expected (M + 1,), and (M,) three times"
        )
    if edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise RequestError(f"reliability diagram: edges must increase from 0 to 1, got {edges.tolist()}")
    filled = counts > 0
    confidence, accuracy = (np.where(filled, array, 0.0) for array in (confidence, accuracy))
    if not all(((array >= 0) & (array <= 1 + 1e-6)).all() for array in (confidence, accuracy)) or not (counts >= 0).all():
        raise RequestError("reliability diagram: confidence and accuracy must be from 0 to 1, and counts from 0")
    return edges, confidence, accuracy, counts


def _draw_bins(axes: Axes, edges: np.ndarray, confidence: np.ndarray, accuracy: np.ndarray, counts: np.ndarray) -> None:
    filled = counts > 0
    left, width = edges[:-1][filled], np.diff(edges)[filled]
    right, sure = accuracy[filled], confidence[filled]
    axes.bar(left, right, width, align="edge", color=_BLUE, edgecolor="white", linewidth=0.6)
    low = np.minimum(right, sure)
    axes.bar(
        left,
        np.abs(right - sure),
        width,
        bottom=low,
        align="edge",
        color=_GAP_COLOUR,
        alpha=0.35,
        edgecolor=_GAP_COLOUR,
        linewidth=0.6,
    )
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(
        sure, right, linestyle="none", marker="o", markersize=3.5, color=INK, markeredgecolor="white", markeredgewidth=0.5
    )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xticks(np.linspace(0, 1, 6), [])
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_ylabel("accuracy", fontsize=9, color=GREY)
    _quiet(axes)


def _draw_counts(axes: Axes, edges: np.ndarray, counts: np.ndarray, counted: str) -> None:
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color="#b8bcc4", edgecolor="white", linewidth=0.6)
    most = max(float(counts.max()), 1.0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, most * (1.35 if len(counts) <= 15 else 1.05))
    if len(counts) <= 15:
        for left, width, count in zip(edges[:-1], np.diff(edges), counts, strict=True):
            size = min(SMALL, 72 * _SIDE * width * 1.5 / len(f"{count:.0f}"))
            axes.text(
                left + width / 2, count + most * 0.05, f"{count:.0f}", ha="center", va="bottom", fontsize=size, color=GREY
            )
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.set_yticks([0, most], ["0", f"{most:.0f}"])
    axes.set_xlabel("confidence", fontsize=9, color=GREY)
    axes.set_ylabel(counted, fontsize=9, color=GREY)
    _quiet(axes)


def _quiet(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALL + 0.5, length=2, color=FRAME, labelcolor=GREY)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
