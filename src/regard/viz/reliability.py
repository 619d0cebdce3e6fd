"""The reliability diagram as PNG, SVG or PDF: the accuracy of a classifier by its confidence.

Reference: Guo et al. 2017, On calibration of modern neural networks, figure 1 and equation 3.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from regard import plurals
from regard.evaluation.calibration import ReliabilityBin
from regard.viz import picture
from regard.viz.colour import palette
from regard.viz.labels import isolated, label, left_to_right
from regard.viz.picture import SMALL, Picture

_WIDTH, _SIDE, _COUNTS = 4.6, 3.4, 0.75
_CAPTION = (
    "Each bar stands for predictions with similar confidence, and each dot for their mean confidence and the share that is "
    "correct: below the dashed line, the model is too sure; above it, not sure enough. Calibration on these texts does "
    "not prove calibration on others."
)


def draw(
    bins: Sequence[ReliabilityBin],
    path: str | Path | None = None,
    *,
    title: str | None = None,
    counted: str = "text",
    lowest: float | None = None,
    caption: bool = True,
) -> Picture:
    """Draw the accuracy, the mean confidence and the size of each bin of predictions.

        expected calibration error = Σ_m counts_m / N · |accuracy_m − confidence_m|

    `counted` is the noun for a prediction: "text", or "decision" if there is one for each label of a text. The axis begins at
    the `lowest` possible confidence. The other arguments are those of `drawing.draw`; the title stands before the error.
    """
    total = sum(one.count for one in bins)
    filled = [one for one in bins if one.count]
    error = sum(one.count * abs(one.accuracy - one.confidence) for one in filled) / max(total, 1)
    top = f"Expected calibration error {error:.3f}, {plurals.counted(total, counted)}"
    top = left_to_right(f"{isolated(label(title, 200))}: {top[0].lower()}{top[1:]}") if title else top
    # The axis begins at the lowest confidence or the first bin with predictions, rounded down to 0.1, and at most at 0.9.
    begin = filled[0].low if filled else 0.0
    if lowest is not None and (not filled or filled[0].high > lowest):
        begin = lowest
    begin = min(0.9, math.floor(10 * begin + 1e-6) / 10)
    with picture.begin("reliability diagram", [top], path) as figure:
        _draw_bins(figure.add_panel(0, 0, _SIDE, _SIDE), filled, begin)
        _draw_counts(figure.add_panel(0, _SIDE + 0.12, _SIDE, _COUNTS), bins, counted, begin)
        figure.finish(top, [_CAPTION] if caption else None, least_width=_WIDTH, size=10)
    return figure


def _draw_bins(axes: Axes, filled: Sequence[ReliabilityBin], begin: float) -> None:
    left, width = [one.low for one in filled], [one.high - one.low for one in filled]
    right, sure = (np.array([getattr(one, name) for one in filled]) for name in ("accuracy", "confidence"))
    axes.bar(
        left,
        right,
        width,
        align="edge",
        label="correct",
        color=palette().positive[2],
        edgecolor=palette().background,
        linewidth=0.6,
    )
    red = palette().negative[1]
    gap: dict[str, Any] = {"color": red, "edgecolor": palette().background, "linewidth": 0.6, "label": "gap to the confidence"}
    axes.bar(left, np.abs(right - sure), width, bottom=np.minimum(right, sure), align="edge", **gap)
    axes.plot(
        [0, 1],
        [0, 1],
        color=palette().ink,
        linewidth=0.8,
        linestyle=(0, (4, 3)),
        label="calibrated",
    )
    dots: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markeredgecolor": palette().background, "markeredgewidth": 0.5}
    # The dots are above the frame, and those at 0 and 1 are not clipped.
    axes.plot(sure, right, linestyle="none", color=palette().ink, clip_on=False, zorder=5, **dots)
    axes.set(xlim=(begin, 1), ylim=(0, 1), yticks=np.linspace(0, 1, 6))
    axes.set_xticks(_ticks(begin), [])
    axes.set_ylabel("accuracy", fontsize=9, color=palette().grey)
    plain: dict[str, Any] = {
        "frameon": False,
        "borderpad": 0,
        "borderaxespad": 0,
        "fontsize": SMALL + 0.5,
        "columnspacing": 1.2,
    }
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=3, **plain)
    _quiet(axes)


def _ticks(begin: float) -> np.ndarray:
    """Return round numbers from the beginning of the axis to 1."""
    step = 0.2 if begin <= 0.2 else 0.1
    return np.round(np.arange(1, begin - 1e-9, -step)[::-1], 1)


def _draw_counts(axes: Axes, bins: Sequence[ReliabilityBin], counted: str, begin: float) -> None:
    bars: dict[str, Any] = {"align": "edge", "color": palette().neutral, "edgecolor": palette().background, "linewidth": 0.6}
    axes.bar([one.low for one in bins], [one.count for one in bins], [one.high - one.low for one in bins], **bars)
    most = max(1, *(one.count for one in bins))
    has_numbers = len(bins) <= 15
    axes.set(xlim=(begin, 1), ylim=(0, most * (1.35 if has_numbers else 1.05)), xticks=_ticks(begin))
    for one in bins if has_numbers else ():
        left = max(one.low, begin)
        if one.high > left:
            size = min(SMALL, 72 * _SIDE * (one.high - left) / (1 - begin) * 1.5 / len(f"{one.count:,}"))
            place = ((left + one.high) / 2, one.count + most * 0.05)
            axes.text(*place, f"{one.count:,}", ha="center", va="bottom", fontsize=size, color=palette().grey)
    axes.set_yticks([0, most], ["0", f"{most:,}"])
    axes.set_xlabel("confidence", fontsize=9, color=palette().grey)
    axes.set_ylabel(f"{counted}s", fontsize=9, color=palette().grey)
    _quiet(axes)


def _quiet(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALL + 0.5, length=2, color=palette().frame, labelcolor=palette().grey)
    axes.spines[["top", "right"]].set_visible(False)
