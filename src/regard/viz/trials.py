"""The scores of the trials of a search for settings, in the order of the trials."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator

from regard.viz import picture
from regard.viz.colour import palette
from regard.viz.picture import SMALL, Picture


def draw(trials: Sequence[tuple[int, float, bool]], path: str | Path, *, score: str, title: str) -> Picture:
    """Draw a point for each trial, hollow if it was pruned, and a line for the best complete trial so far.

    Args:
        trials: Number and score of each trial, and whether it was pruned; the numbers increase.
        path: File of the picture.
        score: Name of the score. Lower is better for `loss`, and higher for all others.
        title: Title of the picture.
    """
    numbers, scores, pruned = (np.array(column) for column in zip(*trials, strict=True))
    best = (np.fmin if score == "loss" else np.fmax).accumulate(np.where(pruned, np.nan, scores))
    ours = palette()
    blue = ours.positive[2]
    with picture.begin("picture of a search", [title, score], path) as figure:
        axes = figure.add_panel(0, 0, 5.2, 2.6)
        axes.step(numbers, best, where="post", color=blue, linewidth=1.2)
        axes.scatter(numbers, scores, s=18, facecolors=["none" if one else blue for one in pruned], edgecolors=ours.ink)
        axes.tick_params(labelsize=SMALL + 0.5, length=2, color=ours.frame, labelcolor=ours.grey)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("trial", fontsize=9, color=ours.grey)
        axes.set_ylabel(score, fontsize=9, color=ours.grey)
        axes.spines[["top", "right"]].set_visible(False)
        notes = ["Each point is the score of a trial's best validation; the line is the best complete trial so far."]
        figure.finish(title, notes + ["Hollow points are trials that were stopped early."] * bool(pruned.any()), size=10)
    return figure
