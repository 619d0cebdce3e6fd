"""Weights over a sound as PNG, SVG or PDF: the wave along time, and below it a row of weights for each word.

If the times of the words are known, a box marks the time of each word in its row.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from regard.records import AttentionRecord, SoundSegment
from regard.records.views import Span, WordView
from regard.viz import caption as captions
from regard.viz import colour, picture, places, summary
from regard.viz.colour import palette
from regard.viz.labels import label
from regard.viz.picture import BAR, Picture

_WIDTH, _WAVE, _GAP = 6.4, 0.5, 0.06
# Maximum number of columns of pixels.
_MOST = 1200
# Font size in points and height of a row in inches, by the maximum number of rows.
_SIZES = ((12, 10.0, 0.3), (30, 9.0, 0.22), (10**9, 7.5, 0.16))


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str,
    head: int | None = None,
    title: str | None = None,
    special: bool = False,
    caption: bool = True,
    scale: float | None = None,
    word: str | int | None = None,
    between: tuple[str, str] | None = None,
) -> Picture:
    """Draw the weights of all words, or of one, over time; the arguments and errors are those of `drawing.draw`."""
    title = summary.title(record, title)
    view = places.looked(record, site, head, special=special, between=between, word=word)
    if not view.matrix.size:
        foot = captions.note(record) if caption else None
        return picture.draw_empty("picture of a sound", captions.empty(record, site), foot, path, title)
    view, silence = places.without_silence(places.only(view, "sound"))
    rows = [label(name) for name in view.rows]
    shades = picture.colours(view.matrix, colour.full_scale(view.matrix, given=scale))
    foot = _foot(record, site, view, head, silence) if caption else None
    with picture.begin("picture of a sound", [*rows, *(foot or ()), title], path) as figure:
        top = 0.0
        for name, span in zip(places.names(places.places(view)), places.places(view), strict=True):
            top = _draw_sound(figure, view, span, name, shades, top) + 0.45
        place = (_WIDTH + 0.18, 0.0, BAR, min(max(top - 0.45, 0.9), 3.0))
        figure.add_bar(place, shades, "weight")
        figure.finish(title, foot)
    return figure


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
    low, high = shades.get_clim()
    weights = view.matrix[:, span.start : span.end]
    place: Any = {"extent": (0, seconds, len(view.rows), 0), "aspect": "auto", "interpolation": "nearest"}
    axes.imshow(places.peaks(weights, _MOST, 1), cmap=shades.cmap, vmin=low, vmax=high, **place)
    for number, times in enumerate(view.row_times):
        if times is not None:
            box: Any = {"fill": False, "edgecolor": palette().mark, "linewidth": 0.9}
            axes.add_patch(Rectangle((times[0], number), times[1] - times[0], 1, **box))
    axes.set_yticks(np.arange(len(view.rows)) + 0.5, [label(each) for each in view.rows])
    axes.tick_params(axis="y", length=0, pad=4, labelsize=size, labelcolor=palette().ink)
    axes.tick_params(axis="x", length=2, labelsize=7, color=palette().frame, labelcolor=palette().grey)
    axes.set_xlabel(f"{label(name, 60)}, seconds", fontsize=7, color=palette().grey)
    for spine in axes.spines.values():
        spine.set(linewidth=0.5, color=palette().frame)
    return top + height


def _foot(record: AttentionRecord, site: str, view: WordView, head: int | None, silence: str) -> list[str]:
    shown, *rest = captions.write(record, [site], [view], head, **places.described(view, "row"))
    boxes = "A box marks the time of a word." if any(view.row_times) else ""
    return [" ".join(filter(None, (shown, boxes, silence))), *rest]
