"""Bars that show how much probability a prediction loses if the most attended, random, or most important words are removed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.viz import picture
from regard.viz.colour import palette
from regard.viz.numbers import fixed
from regard.viz.picture import SMALL, Picture

_WIDTH, _BAR, _GAP = 4.1, 0.2, 0.34


def draw(
    losses: Mapping[str, Mapping[str, float]],
    path: str | Path | None = None,
    *,
    title: str,
    notes: Sequence[str] = (),
    caption: bool = True,
) -> Picture:
    """Draw one group of bars for each way of removing words, with a bar for each choice of words, of at most three.

    The losses of probability are given by way (title of the group) and choice (name of the bar, such as "random"). The notes
    are sentences below the bars; `path` and `caption` are those of `drawing.draw`.
    """
    shades = palette().positive[2], palette().neutral, palette().negative[2]
    # A choice of words has the same colour in all groups.
    names = {name: shade for group in losses.values() for name, shade in zip(group, shades, strict=False)}
    tall = sum(_GAP + _BAR * len(group) for group in losses.values())
    small: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": SMALL + 1}
    with picture.begin("picture of faithfulness", [title, *losses], path) as figure:
        axes = figure.add_panel(0, 0, _WIDTH, tall)
        top = 0.0
        for group, bars in losses.items():
            axes.text(0, top + _GAP * 0.62, group, fontsize=SMALL + 2, color=palette().ink, va="center", ha="left")
            top += _GAP
            for name, value in bars.items():
                axes.barh(top, value, _BAR * 0.8, align="edge", color=names[name])
                middle = top + _BAR * 0.4
                # A number is at the end of its bar, and the names are left of the axis, even if bars are negative.
                side = -1 if value < 0 else 1
                axes.annotate(fixed(value), (value, middle), (4 * side, 0), ha="right" if value < 0 else "left", **small)
                place = ("axes fraction", "data")
                axes.annotate(name, (0, middle), (-4, 0), xycoords=place, ha="right", color=palette().grey, **small)
                top += _BAR
        values = np.array([value for bars in losses.values() for value in bars.values()])
        low, high = min(0.0, values.min()), max(0.0, values.max())
        room = 0.15 * (high - low) if low else 0.0  # for the numbers of negative bars
        axes.set(xlim=(low - room, max(high * 1.02, 1e-6)), ylim=(top, 0), yticks=[])
        axes.axvline(0, color=palette().frame, linewidth=0.8)
        axes.tick_params(labelsize=SMALL + 0.5, length=2, color=palette().frame, labelcolor=palette().grey)
        axes.set_xlabel("probability lost", fontsize=9, color=palette().grey)
        axes.spines[["top", "right", "left"]].set_visible(False)
        figure.finish(title, notes if caption else None, size=10)
    return figure
