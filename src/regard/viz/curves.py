"""Learning curves as PNG, SVG or PDF, from plain columns: one panel for the loss, and one for each score of the dev set.

The columns are those of a run's `logs/metrics.csv`, but this module reads no files, so numbers from any source can be drawn.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from regard.errors import RequestError, nearest
from regard.viz import picture
from regard.viz.colour import palette
from regard.viz.labels import label
from regard.viz.picture import SMALL, Picture

Columns = Mapping[str, Sequence[float | None]]
"""Values by column, all of equal length; None or NaN for missing values. `step` (the update) is required."""
By = Literal["update", "epoch", "minute"]

LOSSES = ("train_nll", "dev_nll")
LABELS = {
    "loss": "loss (nats)",
    "bleu": "BLEU of dev (greedy)",
    "chrf": "chrF of dev (greedy)",
    "exact_match": "exact match of dev (greedy)",
    "accuracy": "accuracy of dev",
    "macro_f1": "macro F1 of dev",
    "learning_rate": "learning rate",
    "gold_probability": "probability of the gold word",
    "train_perplexity": "perplexity of training",
    "dev_perplexity": "perplexity of dev",
}
"""Titles of the panels by column; other columns have their names as titles. Translations are those of greedy search."""
_PERCENT = frozenset(("accuracy", "exact_match", "gold_probability"))
_LESS_IS_BETTER = frozenset(("loss", "attention_loss", "train_perplexity", "dev_perplexity", *LOSSES))
_NOT_A_SCORE = frozenset(
    ("step", "epoch", "learning_rate", "seconds", "gold_probability", "train_perplexity", "dev_perplexity", *LOSSES)
)
# Colours of runs. The first six are those of Okabe & Ito, which colour-blind readers can distinguish.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6a51a3", "#8c564b")
# Line styles; if there are more runs than colours, the colours are repeated with the next style.
_DASHES: tuple[Any, ...] = ("solid", (0, (4, 1.5)), (0, (1, 1.2)))
# Size of a panel, and the space between panels, in inches.
_WIDTH, _TALL, _BESIDE, _BELOW = 3.45, 2.2, 0.77, 0.7
_MOST_LABEL = 60


@dataclass(frozen=True)
class Series:
    """The line of one column of one run."""

    run: int
    column: str
    x: Float[np.ndarray, " N"]
    y: Float[np.ndarray, " N"]


@dataclass(frozen=True)
class Panel:
    """One score or the loss, with the lines of all runs."""

    name: str
    """The column, or `loss` for the losses of training and dev."""
    lines: tuple[Series, ...]

    @property
    def title(self) -> str:
        """Title of the panel."""
        said = "" if self.from_zero or not self.is_score else ", axis not from 0"
        return LABELS.get(self.name, self.name.replace("_", " ")) + said

    @property
    def is_score(self) -> bool:
        """Whether higher values are better."""
        return self.name not in _NOT_A_SCORE | _LESS_IS_BETTER

    @property
    def from_zero(self) -> bool:
        """Whether the vertical axis begins at 0: for scores, unless the curves would be flat lines at the top."""
        values = np.concatenate([line.y for line in self.lines])
        return self.is_score and bool(0 <= values.min() < 0.7 * values.max())

    def best(self, line: Series) -> int | None:
        """Return the index of the best value of a line.

        The result is None for a line without values, the training loss, the learning rate, and the gold word's probability.
        """
        if self.name in ("learning_rate", "gold_probability") or line.column == "train_nll" or not len(line.y):
            return None
        return int(line.y.argmin() if self.name in _LESS_IS_BETTER else line.y.argmax())


def draw(
    runs: Mapping[str, Columns],
    path: str | Path | None = None,
    *,
    by: By = "update",
    columns: Sequence[str] = (),
    title: str | None = None,
) -> Picture:
    """Draw the curves of one or several runs, one panel for the loss and one for each score.

    Args:
        runs: Columns of each run by its name in the legend: `{"runs/a": {"step": [50, 100], "train_nll": [6.1, 5.2]}}`.
        path: File to write the picture to, as .png, .svg or .pdf. If None, no file is written.
        by: Horizontal axis: `update` (column `step`), `epoch` (`step` divided by the updates per epoch), or `minute` of
            training (column `seconds`).
        columns: Columns to draw; `loss` means both losses. If empty, the loss and every score of the dev set are drawn.
        title: Title of the picture.

    Returns:
        The picture, which a notebook shows.

    Raises:
        RequestError: If there is no run or no number to draw, a column is missing, unknown or not as long as `step`, `by` is
            unknown, or the file has another ending.
        DataError: If the file cannot be written.
    """
    drawn_panels = panels(runs, by=by, columns=columns)
    names = [label(name, _MOST_LABEL) for name in runs]
    title = label(title, 200) if title else ""
    # Two or four panels look better in two columns than with a gap in three.
    across = min(len(drawn_panels), 2 if len(drawn_panels) in (2, 4) else 3)
    with picture.begin("picture of curves", [*names, title], path) as figure:
        for number, panel in enumerate(drawn_panels):
            row, column = divmod(number, across)
            axes = figure.add_panel(column * (_WIDTH + _BESIDE), row * (_TALL + _BELOW), _WIDTH, _TALL)
            axes.set_title(_head(panel, len(names), by), loc="left", pad=5, fontsize=9, color=palette().grey)
            _draw_panel(axes, panel, by)
        box, keys = figure.content(), _keys(drawn_panels, names)
        key_width = max(figure.measure([text for _, text in keys], SMALL + 1)) + 0.5
        axes = figure.add_panel(box.x0, box.y1 + 0.1, box.width, 0.01)
        axes.set_axis_off()
        plain: dict[str, Any] = {
            "frameon": False,
            "borderpad": 0,
            "borderaxespad": 0,
            "handlelength": 2.4,
            "columnspacing": 1.2,
        }
        plain |= {"loc": "upper left", "bbox_to_anchor": (0, 1), "fontsize": SMALL + 1}
        axes.legend(*zip(*keys, strict=True), ncols=max(1, int(box.width / key_width)), **plain)
        figure.finish(title, (), size=10)
    return figure


def panels(runs: Mapping[str, Columns], *, by: By = "update", columns: Sequence[str] = ()) -> list[Panel]:
    """Build panels with lines from the columns of runs; values that are missing or not finite are skipped.

    Raises:
        RequestError: As for `draw`.
    """
    if not runs:
        raise RequestError("curves: no run was given, expected the columns of at least one run")
    if by not in get_args(By):
        raise RequestError(f"curves: by is {by!r:.60}, expected one of: {', '.join(get_args(By))}")
    arrays = [_arrays(name, run) for name, run in runs.items()]
    known = ["loss", *dict.fromkeys(name for run in arrays for name in run if name not in LOSSES)]
    for name in columns:
        if name not in known and name not in LOSSES:
            raise RequestError(f"curves: no run has a column '{name:.60}'{nearest(name, known)}; expected: {', '.join(known)}")
    scores = [name for name in known[1:] if name not in _NOT_A_SCORE and not name.endswith("_per_second")]
    chosen = list(columns) or ["loss", *scores]
    places = [_places(name, run, by) for name, run in zip(runs, arrays, strict=True)]
    every_panel = (Panel(name, tuple(_lines(name, arrays, places))) for name in dict.fromkeys(chosen))
    drawn_panels = [panel for panel in every_panel if panel.lines]
    if not drawn_panels:
        raise RequestError(
            f"curves: {', '.join(map(repr, runs))} {'has' if len(runs) == 1 else 'have'} no number to draw in "
            f"{', '.join(chosen)}; wait for the first rows, or name other columns"
        )
    return drawn_panels


def _arrays(name: str, run: Columns) -> dict[str, np.ndarray]:
    if "step" not in run:
        raise RequestError(f"curves: {name!r:.80} has no column 'step', expected the number of the update for each row")
    arrays = {key: np.array([math.nan if x is None else x for x in values], np.float64) for key, values in run.items()}
    for key, values in arrays.items():
        if len(values) != len(arrays["step"]):
            raise RequestError(
                f"curves: column '{key:.60}' of {name!r:.80} has {len(values):,} values and 'step' {len(arrays['step']):,}, "
                "expected the same number"
            )
    return arrays


def _places(name: str, run: Mapping[str, np.ndarray], by: By) -> np.ndarray:
    """Return the position of each row on the horizontal axis."""
    step = run["step"]
    if by == "update":
        return step
    column = {"epoch": "epoch", "minute": "seconds"}[by]
    if column not in run:
        raise RequestError(f"curves: {name!r:.80} has no column '{column}', which curves by {by} need; draw them by update")
    if by == "minute":
        return run["seconds"] / 60
    # Every epoch has the same number of updates. In the last row of an epoch, step / epoch is this number; before, it is less.
    with np.errstate(divide="ignore", invalid="ignore"):
        least = step / run["epoch"]
    length = np.ceil(np.max(least[np.isfinite(least)], initial=1.0) - 1e-9)
    return step / length


def _lines(name: str, runs: Sequence[Mapping[str, np.ndarray]], places: Sequence[np.ndarray]) -> list[Series]:
    lines = []
    for number, (run, x) in enumerate(zip(runs, places, strict=True)):
        for column in LOSSES if name == "loss" else (name,):
            values = run.get(column, np.full(len(x), math.nan))
            there = np.isfinite(values) & np.isfinite(x)
            if there.any():
                lines.append(Series(number, column, x[there], values[there]))
    return lines


def _head(panel: Panel, num_runs: int, by: By) -> str:
    """Return the panel's title; for a single run, with its best value."""
    lines = [line for line in panel.lines if panel.best(line) is not None]
    if num_runs > 1 or len(lines) != 1:
        return panel.title
    line, row = lines[0], panel.best(lines[0])
    assert row is not None
    value = f"{line.y[row]:.1%}" if panel.name in _PERCENT else f"{line.y[row]:.4g}"
    place = f"{line.x[row]:,.0f}" if by == "update" else f"{line.x[row]:.4g}"
    where = "best of dev" if panel.name == "loss" else "best"
    return f"{panel.title}: {where} {value} at {by} {place}"


def _keys(drawn_panels: Sequence[Panel], names: Sequence[str]) -> list[tuple[Line2D, str]]:
    """Return the legend: an entry for each run that has a line, and for training and dev if both are drawn."""
    drawn = {line.run for panel in drawn_panels for line in panel.lines}
    columns = {line.column for panel in drawn_panels for line in panel.lines}
    keys = [(Line2D([], [], **_style(number)), names[number]) for number in sorted(drawn)]
    if {*LOSSES} <= columns:
        grey: dict[str, Any] = {"color": palette().grey, "linewidth": 1.4}
        keys.append((Line2D([], [], **{**grey, "linewidth": 0.9, "alpha": 0.55}), "training"))
        keys.append((Line2D([], [], marker="o", markersize=3, **grey), "dev"))
    return keys


def _style(run: int) -> dict[str, Any]:
    dash = _DASHES[run // len(_COLOURS) % len(_DASHES)]
    return {"color": _COLOURS[run % len(_COLOURS)], "linestyle": dash, "linewidth": 1.4}


def _draw_panel(axes: Axes, panel: Panel, by: By) -> None:
    for line in panel.lines:
        style = _style(line.run)
        if line.column == "train_nll":
            style |= {"linewidth": 0.9, "alpha": 0.55}
        # A single value draws no line, and a few values are easier to see with dots.
        marked = len(line.y) == 1 or (line.column != "train_nll" and len(line.y) <= 40)
        axes.plot(line.x, line.y, marker="o" if marked else "", markersize=2.6, **style)
        row = panel.best(line)
        if row is not None:
            ring: dict[str, Any] = {"marker": "o", "markersize": 6.5, "markerfacecolor": "none"}
            axes.plot(line.x[row], line.y[row], linestyle="none", markeredgecolor=style["color"], **ring)
    axes.set_xlim(left=0)
    axes.margins(y=0.08)
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if panel.name in _PERCENT:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=by != "minute"))
    if by == "update":
        axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel({"minute": "minutes of training"}.get(by, by), fontsize=SMALL + 1, color=palette().grey)
    axes.grid(axis="y", color=palette().faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=SMALL + 0.5, length=2, color=palette().frame, labelcolor=palette().grey)
    axes.spines[["top", "right"]].set_visible(False)
