"""Bars that show how much probability a prediction loses if the most attended, random, or most important words are removed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.viz import colour, picture
from regard.viz.numbers import fixed
from regard.viz.picture import EDGE, FRAME, GREY, INK, SMALL, SMALL_LINE, Picture

_WIDTH, _BAR, _GAP, _TITLE = 5.6, 0.2, 0.34, 0.3
_COLOURS = (colour.LIGHT[2], "#b8bcc4", colour.LIGHT_NEGATIVE[2])


def draw(
    losses: Mapping[str, Mapping[str, float]],
    path: str | Path | None = None,
    *,
    title: str,
    notes: Sequence[str] = (),
    caption: bool = True,
    dpi: float = 150,
) -> Picture:
    """Draw one group of bars for each way of removing words.

    Args:
        losses: For each way of removing words (title of the group), the loss of probability by the choice of words (name of the
            bar). There are at most three choices, such as "most attention" and "random".
        path: File to write, as .png, .svg or .pdf; by default, no file is written.
        title: Text above the bars.
        notes: Sentences below the bars.
        caption: If False, the picture has no text below it.
        dpi: Pixels per inch.

    Raises:
        RequestError: If the file has another ending, or `dpi` is not from 10 to 2400.
        DataError: If the file cannot be written.
    """
    ending = picture.check("picture of faithfulness", path, dpi)
    names = {name: shade for group in losses.values() for name, shade in zip(group, _COLOURS, strict=False)}
    families, complaint = picture.find_fonts("faithfulness", [title, *losses], ending)
    with picture.blank(families) as figure:
        lines = [line for note in (*notes, *complaint) for line in figure.wrap(note, _WIDTH - 2 * EDGE)] if caption else []
        left = EDGE + max(figure.measure(list(names), SMALL + 1)) + 0.08
        room = figure.measure(["−0.000"], SMALL + 1)[0] + 0.1
        tall = sum(_GAP + _BAR * len(group) for group in losses.values())
        upper = EDGE + _TITLE
        figure.resize(_WIDTH, upper + tall + 0.5 + len(lines) * SMALL_LINE + EDGE, dpi)
        figure.write_title([title], 10, 0.2)
        axes = figure.add_axes(figure.box(left, upper, _WIDTH - left - EDGE - room, tall))
        top = 0.0
        for group, bars in losses.items():
            axes.text(0, top + _GAP * 0.62, group, fontsize=SMALL + 2, color=INK, va="center", ha="left")
            top += _GAP
            for name, value in bars.items():
                axes.barh(top, value, _BAR * 0.8, align="edge", color=names[name])
                middle = top + _BAR * 0.4
                axes.annotate(
                    fixed(value), (max(value, 0), middle), (4, 0), textcoords="offset points", va="center", fontsize=SMALL + 1
                )
                # Names are left of the axis, even if bars are negative.
                axes.annotate(
                    name, (0, middle), (-4, 0), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
                    va="center", fontsize=SMALL + 1, color=GREY,
                )  # fmt: skip
                top += _BAR
        values = np.array([value for bars in losses.values() for value in bars.values()])
        axes.set(xlim=(min(0.0, values.min() * 1.02), max(values.max() * 1.02, 1e-6)), ylim=(top, 0), yticks=[])
        axes.axvline(0, color=FRAME, linewidth=0.8)
        axes.tick_params(labelsize=SMALL + 0.5, length=2, color=FRAME, labelcolor=GREY)
        axes.set_xlabel("probability lost", fontsize=9, color=GREY)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        figure.write_foot(lines)
    figure.save(path)
    return figure
