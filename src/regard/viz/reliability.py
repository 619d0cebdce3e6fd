"""The reliability diagram as PNG, SVG or PDF: the accuracy of a classifier by its confidence.

Reference: Guo et al. 2017, On calibration of modern neural networks, figure 1 and equation 3.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from regard import plurals
from regard.errors import RequestError, ShapeError
from regard.viz import colour, picture
from regard.viz.labels import isolated, label, left_to_right
from regard.viz.picture import FRAME, GREY, INK, SMALL, Picture

_WIDTH, _SIDE, _COUNTS = 4.6, 3.4, 0.75
_CAPTION = (
    "Blue: the share of correct predictions among predictions with similar confidence. Red, or purple on blue: the gap between "
    "this share and their mean confidence. A dot stands at the mean confidence and the share. Dots on the dashed line are "
    "calibrated: at confidence 0.8, 80% are correct. Below: the number of predictions. Calibration on these texts does not "
    "prove calibration on others."
)
_BLUE, _GAP_COLOUR = colour.LIGHT[2], colour.LIGHT_NEGATIVE[2]


def draw(
    edges: ArrayLike,
    confidence: ArrayLike,
    accuracy: ArrayLike,
    counts: ArrayLike,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    counted: str = "text",
    lowest: float | None = None,
    caption: bool = True,
    dpi: float = 150,
) -> Picture:
    """Draw the accuracy, the mean confidence and the size of each bin of predictions.

        expected calibration error = Σ_m counts_m / N · |accuracy_m − confidence_m|

    Args:
        edges: (M + 1) Edges of the bins, increasing from 0 to 1.
        confidence: (M) Mean probability of the predicted label in each bin; any number for an empty bin.
        accuracy: (M) Share of correct predictions in each bin; any number for an empty bin.
        counts: (M) Number of predictions in each bin.
        path: File to write, as .png, .svg or .pdf; by default, no file is written.
        title: Text before the calibration error.
        counted: Singular noun for a prediction: "text", or "decision" if there is one for each label of a text.
        lowest: The lowest possible confidence, such as 0.5 for two labels. The axis begins there, or, if `lowest` is None,
            at the left edge of the first bin with predictions; this number is rounded down to a multiple of 0.1.
        caption: If False, the picture has no text below it.
        dpi: Pixels per inch.

    Raises:
        ShapeError: If the numbers of bins differ.
        RequestError: If the edges do not increase from 0 to 1, a share, a count, `lowest` or `dpi` (10 to 2400) is out of
            range, or the file has another ending.
        DataError: If the file cannot be written.
    """
    places, sure, right, number = _checked(edges, confidence, accuracy, counts)
    total = int(number.sum())
    error = float((number * np.abs(right - sure)).sum() / max(total, 1))
    if lowest is not None and not 0 <= lowest < 1:
        raise RequestError(f"reliability diagram: lowest is {lowest}, expected a confidence from 0 to below 1")
    begin = _axis_begin(places, number, lowest)
    amount = plurals.counted(total, counted)
    top = f"Expected calibration error {error:.3f}, {amount}"
    top = left_to_right(f"{isolated(label(title, 200))}: {top[0].lower()}{top[1:]}") if title else top
    with picture.begin("reliability diagram", [top], path, dpi) as figure:
        _draw_bins(figure.add_panel(0, 0, _SIDE, _SIDE), places, sure, right, number, begin)
        _draw_counts(figure.add_panel(0, _SIDE + 0.12, _SIDE, _COUNTS), places, number, counted, begin)
        figure.finish(top, [_CAPTION] if caption else None, least_width=_WIDTH, size=10)
    return figure


def _axis_begin(edges: np.ndarray, counts: np.ndarray, lowest: float | None) -> float:
    """Return the beginning of the confidence axis: a multiple of 0.1, at most 0.9; see `lowest` in `draw`."""
    filled = np.flatnonzero(counts > 0)
    begin = float(edges[filled[0]]) if len(filled) else 0.0
    if lowest is not None and (not len(filled) or edges[filled[0] + 1] > lowest):
        begin = lowest
    return min(0.9, math.floor(10 * begin + 1e-6) / 10)


def _checked(*arrays: Any) -> tuple[np.ndarray, ...]:
    edges, confidence, accuracy, counts = (np.asarray(array, np.float64) for array in arrays)
    if edges.ndim != 1 or len(edges) < 2 or not confidence.shape == accuracy.shape == counts.shape == (len(edges) - 1,):
        raise ShapeError(
            f"reliability diagram: edges has shape {edges.shape}, confidence {confidence.shape}, accuracy {accuracy.shape}, "
            f"counts {counts.shape}; expected (M + 1,), (M,), (M,) and (M,)"
        )
    if edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise RequestError(f"reliability diagram: edges must increase from 0 to 1, got {edges.tolist()}")
    filled = counts > 0
    confidence, accuracy = (np.where(filled, array, 0.0) for array in (confidence, accuracy))
    if not all(((array >= 0) & (array <= 1 + 1e-6)).all() for array in (confidence, accuracy)) or not (counts >= 0).all():
        raise RequestError("reliability diagram: confidence and accuracy must be from 0 to 1, and counts at least 0")
    return edges, confidence, accuracy, counts


def _draw_bins(
    axes: Axes, edges: np.ndarray, confidence: np.ndarray, accuracy: np.ndarray, counts: np.ndarray, begin: float
) -> None:
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
        sure,
        right,
        linestyle="none",
        marker="o",
        markersize=3.5,
        color=INK,
        markeredgecolor="white",
        markeredgewidth=0.5,
        clip_on=False,  # draws dots at 0 and 1 whole
        zorder=5,  # above the frame
    )
    axes.set_xlim(begin, 1)
    axes.set_ylim(0, 1)
    axes.set_xticks(_ticks(begin), [])
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_ylabel("accuracy", fontsize=9, color=GREY)
    _quiet(axes)


def _ticks(begin: float) -> np.ndarray:
    """Return round numbers from the beginning of the axis to 1."""
    step = 0.2 if begin <= 0.2 else 0.1
    return np.round(np.arange(1, begin - 1e-9, -step)[::-1], 1)


def _draw_counts(axes: Axes, edges: np.ndarray, counts: np.ndarray, counted: str, begin: float) -> None:
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color="#b8bcc4", edgecolor="white", linewidth=0.6)
    most = max(float(counts.max()), 1.0)
    axes.set_xlim(begin, 1)
    axes.set_ylim(0, most * (1.35 if len(counts) <= 15 else 1.05))
    if len(counts) <= 15:
        for left, right, count in zip(edges[:-1].clip(begin), edges[1:], counts, strict=True):
            if right <= begin:
                continue
            size = min(SMALL, 72 * _SIDE * (right - left) / (1 - begin) * 1.5 / len(f"{count:,.0f}"))
            axes.text(
                (left + right) / 2, count + most * 0.05, f"{count:,.0f}", ha="center", va="bottom", fontsize=size, color=GREY
            )
    axes.set_xticks(_ticks(begin))
    axes.set_yticks([0, most], ["0", f"{most:,.0f}"])
    axes.set_xlabel("confidence", fontsize=9, color=GREY)
    axes.set_ylabel(f"{counted}s", fontsize=9, color=GREY)
    _quiet(axes)


def _quiet(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALL + 0.5, length=2, color=FRAME, labelcolor=GREY)
    axes.spines[["top", "right"]].set_visible(False)
