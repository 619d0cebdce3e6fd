"""A text with words coloured by their attention weights, as PNG, SVG or PDF.

The text is wrapped into lines, and the picture grows with it, so that a text of one or of four hundred words is readable. White
is zero, and the darkest colour is the weight at the end of the colour bar, where a mark shows the weight 1/N of each of N words
if all had the same.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import FancyBboxPatch

from regard.records import AttentionRecord
from regard.records.attribution import attribution_of
from regard.viz import colour, picture, summary
from regard.viz.caption import bar_name, empty, note, write
from regard.viz.colour import palette
from regard.viz.labels import label, runs_right_to_left
from regard.viz.numbers import amount, decimals, greatest
from regard.viz.picture import EDGE, Picture
from regard.viz.summary import most_weight, other_labels

# Font size in points and width of the picture in inches, by the maximum number of words.
_SIZES = ((12, 12.0, 4.4), (60, 11.0, 5.6), (200, 9.5, 6.5), (10**9, 8.5, 7.5))
_PAD, _GAP, _BAR_WIDTH, _BAR_HEIGHT = 0.04, 0.045, 1.5, 0.1
_TITLE_SIZE = 12.0


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    title: str | None = None,
    special: bool = False,
    caption: bool = True,
    scale: float | None = None,
    between: tuple[str, str] | None = None,
) -> Picture:
    """Draw the source words, coloured by their weights; the arguments and errors are those of `drawing.draw`.

    If the site has several rows, their mean is shown. The default title is the label with its probability, and the true label
    if it is known.
    """
    site = record.site(site)
    view = record.view(site, head, special=special, between=between)
    weights = view.means
    words = [label(word) for word in view.columns]
    top = summary.title(record, title)
    if not words:
        foot = [*other_labels(record), *note(record)] if caption else None
        return picture.draw_empty("picture of words", empty(record, site), foot, path, top)
    scale = colour.full_scale(weights, given=scale)
    uniform = []
    sums_to_one = np.allclose(view.totals[view.totals > 0], 1, atol=0.02)  # as a softmax has it, also in half precision
    if marked := 1 / len(words) <= scale and sums_to_one and not attribution_of(site):
        uniform = [f"The mark on the colour bar: 1/{len(words)}, the weight of each word if all had the same."]
    foot = (
        [most_weight(words, weights), *uniform, *other_labels(record), *write(record, [site], [view], head)]
        if caption
        else None
    )
    shades = picture.colours(weights, scale)
    with picture.begin("picture of words", [*words, *(foot or ()), top], path) as figure:
        starts = [span.start for span in view.column_spans]
        height = _draw_words(figure, words, starts, view.unknown_columns, shades.to_rgba(weights)[:, :3])
        places, ticks = decimals(greatest(weights)), 2 if shades.get_clim()[0] == 0 else 3
        place = (0.5, height + 0.12, _BAR_WIDTH, _BAR_HEIGHT)
        axes = figure.add_bar(place, shades, bar_name(site), ticks=ticks, form=lambda value: amount(value, places))
        if marked:  # above this mark, a word has more weight than the same weight for all would give it
            axes.plot(
                [1 / len(words)],
                [1.25],
                "v",
                markersize=4,
                color=palette().ink,
                transform=axes.get_xaxis_transform(),
                clip_on=False,
            )
        figure.finish(top, foot, size=_TITLE_SIZE)
    return figure


def _draw_words(figure: Picture, words: list[str], starts: Sequence[int], unknown: Sequence[bool], fills: np.ndarray) -> float:
    """Draw words on their colours (N,3) in lines of one width, and return the height; a line begins at each of `starts`."""
    size, width = next(x[1:] for x in _SIZES if len(words) <= x[0])
    line = size * 1.75 / 72
    widths = [taken + 2 * _PAD for taken in figure.measure(words, size)]
    # A word that is longer than a line makes all lines longer.
    width = max(width - 2 * EDGE, *widths)
    right_to_left = runs_right_to_left(words)
    lefts, tops, left, top = [], [], 0.0, 0.0
    for number, taken in enumerate(widths):
        if left and (left + taken > width or number in starts):
            left, top = 0.0, top + line
        lefts.append(width - left - taken if right_to_left else left)
        tops.append(top)
        left += taken + _GAP
    axes = figure.add_panel(0, 0, width, top + line)
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(top + line, 0))
    texts = []
    for word, fill, left, top, taken in zip(words, fills, lefts, tops, widths, strict=True):
        round_box = "round,pad=0,rounding_size=0.035"
        box = FancyBboxPatch(
            (left, top), taken, line * 0.86, round_box, facecolor=fill, edgecolor=palette().faint, linewidth=0.4
        )
        box.set_clip_on(False)
        axes.add_artist(box)
        base = top + line * 0.43 + 0.38 * size / 72  # tall letters are in the middle of their box
        style: Any = {"ha": "center", "va": "baseline", "fontsize": size, "color": colour.ink(fill)}
        texts.append(axes.text(left + taken / 2, base, word, **style))
    picture.underline_unknown(texts, unknown)
    return tops[-1] + line
