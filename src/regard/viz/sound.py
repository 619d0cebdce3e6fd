"""Weights over a sound as PNG, SVG or PDF: the wave along time, and below it a row of weights for each word.

If the times of the words are known, a box marks the time of each word in its row.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from regard.records import AttentionRecord, SoundSegment
from regard.records.views import Span, WordView
from regard.viz import caption as captions
from regard.viz import colour, picture, places, summary
from regard.viz.colour import palette
from regard.viz.labels import label
from regard.viz.picture import BAR, Picture

_WIDTH, _WAVE, _GAP = 6.4, 0.5, 0.06
# Width of a map of a head and height of its rows, in inches.
_SMALL, _SMALL_ROW = 1.7, 0.11
# Maximum number of columns of pixels.
_MOST = 1200
# Font size in points and height of a row in inches, by the maximum number of rows.
_SIZES = ((12, 10.0, 0.3), (30, 9.0, 0.22), (10**9, 7.5, 0.16))


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    sites: Sequence[str],
    by_head: bool = False,
    head: int | None = None,
    title: str | None = None,
    caption: bool = True,
    scale: float | None = None,
    **options: Any,
) -> Picture:
    """Draw the weights of all words, or of one, over time; or, `by_head`, a small map for each layer and head.

    The other arguments and errors are those of `drawing.draw`; `options` are those of `places.looked`.
    """
    title = summary.title(record, title)
    lines: list[list[tuple[str, WordView]]] = []
    silence = ""
    for site in sites:
        heads = range(record.num_heads(site) or 0) if by_head else [head]
        line = []
        for each in heads or [None]:
            view = places.only(places.looked(record, site, each, **options, earlier=by_head), "sound")
            view, silence = places.without_silence(view)
            line.append((f"{label(site, 30)} · head {each}" if heads and each is not None else label(site, 30), view))
        lines.append(line)
    views = [view for line in lines for _, view in line]
    if not views[0].matrix.size:
        foot = captions.note(record) if caption else None
        return picture.draw_empty("picture of a sound", captions.empty(record, sites[0]), foot, path, title)
    values = np.stack([view.matrix for view in views])
    shades = picture.colours(values, colour.full_scale(values, given=scale))
    foot = _foot(record, sites, views, head, silence, by_head=by_head) if caption else None
    with picture.begin("picture of a sound", [*map(label, views[0].rows), *(foot or ()), title], path) as figure:
        if by_head:
            _draw_heads(figure, lines, shades)
        else:
            _draw_sounds(figure, views[0], shades)
        figure.finish(title, foot)
    return figure


def _draw_heads(figure: Picture, lines: list[list[tuple[str, WordView]]], shades: Any) -> None:
    """Draw a small map for each head, with the words at the left edge only."""
    rows = lines[0][0][1].rows
    height = max(0.5, len(rows) * _SMALL_ROW)
    for row, line in enumerate(lines):
        for column, (name, view) in enumerate(line):
            axes = figure.add_panel(column * (_SMALL + 0.14), row * (height + 0.33), _SMALL, height)
            _draw_map(axes, view.matrix, (0, view.matrix.shape[1]), shades)
            axes.set_title(name, loc="left", pad=3, fontsize=7.5, color=palette().grey)
            axes.set_xticks([])
            axes.set_yticks(np.arange(len(rows)) + 0.5, list(map(label, rows)) if column == 0 else [""] * len(rows))
            axes.tick_params(length=0, pad=3, labelsize=6.5, labelcolor=palette().ink)
    figure.add_bar((0.5, figure.content().y1 + 0.16, 1.8, 0.1), shades, "weight", ticks=3)


def _draw_map(axes: Axes, weights: np.ndarray, across: tuple[float, float], shades: Any) -> None:
    """Draw the weights of words in rows, from left to right `across` an axis."""
    low, high = shades.get_clim()
    place: Any = {"extent": (*across, len(weights), 0), "aspect": "auto", "interpolation": "nearest"}
    axes.imshow(places.peaks(weights, _MOST, 1), cmap=shades.cmap, vmin=low, vmax=high, **place)
    for spine in axes.spines.values():
        spine.set(linewidth=0.5, color=palette().frame)


def _draw_sounds(figure: Picture, view: WordView, shades: Any) -> None:
    """Draw each sound below the one before."""
    top = 0.0
    for name, span in zip(places.names(places.places(view)), places.places(view), strict=True):
        top = _draw_sound(figure, view, span, name, shades, top) + 0.45
    figure.add_bar((_WIDTH + 0.18, 0.0, BAR, min(max(top - 0.45, 0.9), 3.0)), shades, "weight")


def _draw_sound(figure: Picture, view: WordView, span: Span, name: str, shades: Any, top: float) -> float:
    """Draw one sound from the height `top` on, and return the height of its end."""
    sound = span.segment
    assert isinstance(sound, SoundSegment)
    seconds = (span.end - span.start) * sound.seconds
    size, row = next(each[1:] for each in _SIZES if len(view.rows) <= each[0])
    if sound.wave:
        axes = figure.add_panel(0, top, _WIDTH, _WAVE)
        wave = np.array(sound.wave)
        time = (np.arange(len(wave)) + 0.5) * sound.num_tokens * sound.seconds / len(wave)
        axes.fill_between(time, -wave, wave, color=palette().neutral, linewidth=0)
        axes.set(xlim=(0, seconds), ylim=(-1.05, 1.05))
        axes.set_axis_off()
        top += _WAVE + _GAP
    height = len(view.rows) * row
    axes = figure.add_panel(0, top, _WIDTH, height)
    _draw_map(axes, view.matrix[:, span.start : span.end], (0, seconds), shades)
    for number, times in enumerate(view.row_times):
        if times is not None:
            box: Any = {"fill": False, "edgecolor": palette().mark, "linewidth": 0.9}
            axes.add_patch(Rectangle((times[0], number), times[1] - times[0], 1, **box))
    axes.set_yticks(np.arange(len(view.rows)) + 0.5, [label(each) for each in view.rows])
    axes.tick_params(axis="y", length=0, pad=4, labelsize=size, labelcolor=palette().ink)
    axes.tick_params(axis="x", length=2, labelsize=7, color=palette().frame, labelcolor=palette().grey)
    axes.set_xlabel(f"{label(name, 60)}, seconds", fontsize=7, color=palette().grey)
    return top + height


def _foot(
    record: AttentionRecord, sites: Sequence[str], views: list[WordView], head: int | None, silence: str, *, by_head: bool
) -> list[str]:
    shown, *rest = captions.write(record, sites, views, head, grid=by_head, **places.described(views[0], "row"))
    boxes = "A box marks the time of a word." if any(views[0].row_times) and not by_head else ""
    boxes = "From left to right: time." if by_head else boxes
    return [" ".join(filter(None, (shown, boxes, silence))), *rest]
