"""A text with words coloured by their attention weights, as PNG, SVG or PDF.

The text is wrapped into lines, and the picture grows with it, so that a text of one or of four hundred words is readable. White
is zero, and the darkest colour is the largest weight of the text, which the colour bar shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.patches import FancyBboxPatch

from regard.records import AttentionRecord
from regard.viz import colour, picture
from regard.viz.caption import empty, note, write
from regard.viz.labels import label, runs_right_to_left
from regard.viz.numbers import amount, decimals, greatest
from regard.viz.picture import ASCENT, EDGE, GREY, SMALL, SMALL_LINE, Picture
from regard.viz.summary import headline, most_weight, other_labels

_SIZES = ((12, 12.0, 4.4), (60, 11.0, 5.6), (200, 9.5, 6.5), (10**9, 8.5, 7.5))
"""Font size in points and width of the picture in inches, by the maximum number of words."""
_PAD, _GAP, _BAR_WIDTH, _BAR_HEIGHT = 0.04, 0.045, 1.5, 0.1
_TITLE_SIZE, _TITLE_LINE, _BAR_ROOM = 12.0, 0.24, 0.36


@dataclass(frozen=True)
class _Layout:
    """Layout of the picture, in inches from its top left corner."""

    width: float
    height: float
    font_size: float
    line: float
    title: list[str]
    boxes: list[tuple[float, float, float]]
    """Left, top and width of each word."""
    bar_top: float
    foot: list[str]


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    title: str | None = None,
    special: bool = False,
    caption: bool = True,
    dpi: float = 150,
) -> Picture:
    """Draw the source words, coloured by their weights.

    Args:
        record: The record.
        path: File to write, as .png, .svg or .pdf; by default, no file is written.
        site: Site to draw; by default `cross`, `pool`, or the only site. If it has several rows, their mean is shown.
        head: Head to draw, from 0; by default the mean over heads.
        title: Text at the top; by default, the label with its probability, and the true label if it is known.
        special: If True, special tokens are drawn, too.
        caption: If False, the picture has no text below it.
        dpi: Pixels per inch; it is reduced if a side would have more than 30,000 pixels.

    Raises:
        RequestError: If there is no such site or head, the file has another ending, or `dpi` is not from 10 to 2400.
        DataError: If the file cannot be written.
    """
    ending = picture.check("picture of words", path, dpi)
    site = record.site(site)
    view = record.view(site, head, special=special)
    weights = view.matrix.sum(axis=0, dtype=np.float64) / max(1, len(view.matrix))
    words = [label(word) for word in view.columns]
    top = headline(record, with_probability=True) if title is None else label(title, 200)
    if not words:
        told = [*other_labels(record), *note(record)] if caption else []
        return picture.draw_empty("picture of words", [empty(record, site), *told], path, top, dpi)
    foot = [most_weight(words, weights), *other_labels(record), *write(record, [site], [view], head)] if caption else []
    families, complaint = picture.find_fonts("picture of words", [*words, *foot, top], ending)
    with picture.blank(families) as figure:
        layout = _lay_out(figure, words, top, foot + complaint * caption)
        figure.resize(layout.width, layout.height, dpi)
        figure.write_title(layout.title, _TITLE_SIZE, _TITLE_LINE)
        _draw_words(figure, layout, words, weights)
        figure.write_foot(layout.foot)
    figure.save(path)
    return figure


def _lay_out(figure: Picture, words: Sequence[str], headline: str, foot: Sequence[str]) -> _Layout:
    font_size, width = next(x[1:] for x in _SIZES if len(words) <= x[0])
    line = font_size * 1.75 / 72
    widths = [taken + 2 * _PAD for taken in figure.measure(words, font_size)]
    width = max(width, max(widths) + 2 * EDGE)
    title = figure.wrap(headline, width - 2 * EDGE, _TITLE_SIZE) if headline else []
    right_to_left = runs_right_to_left(words)
    boxes, left, top = [], EDGE, EDGE + len(title) * _TITLE_LINE + 0.1
    for taken in widths:
        if left > EDGE and left + taken > width - EDGE:
            left, top = EDGE, top + line
        boxes.append((width - left - taken if right_to_left else left, top, taken))
        left += taken + _GAP
    bar_top = top + line + 0.12
    lines = [part for text in foot for part in figure.wrap(text, width - 2 * EDGE)]
    height = bar_top + _BAR_ROOM + len(lines) * SMALL_LINE + EDGE
    return _Layout(width, height, font_size, line, title, boxes, bar_top, lines)


def _draw_words(figure: Picture, layout: _Layout, words: Sequence[str], weights: np.ndarray) -> None:
    shades, norm = picture.colours(weights, float(np.abs(weights).max()) or 1.0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, layout.width)
    axes.set_ylim(layout.height, 0)
    tall = layout.line * 0.86
    for word, weight, (left, top, width) in zip(words, weights, layout.boxes, strict=True):
        shade = np.array(shades(norm(weight))[:3])
        style = "round,pad=0,rounding_size=0.035"
        axes.add_artist(FancyBboxPatch((left, top), width, tall, style, facecolor=shade, edgecolor="#dddddd", linewidth=0.4))
        ink = colour.ink(shade)
        middle = top + (tall - ASCENT * layout.font_size / 72) / 2
        figure.write(word, left + width / 2, middle, ha="center", fontsize=layout.font_size, color=ink)
    figure.write("weight", EDGE, layout.bar_top + _BAR_HEIGHT / 2, va="center", fontsize=SMALL, color=GREY)
    place = (EDGE + 0.5, layout.bar_top, _BAR_WIDTH, _BAR_HEIGHT)
    places = decimals(greatest(weights))
    ticks = 2 if norm.vmin == 0 else 3
    picture.draw_bar(
        figure, place, ScalarMappable(norm, shades), "weight", ticks=ticks, lying=True, form=lambda value: amount(value, places)
    )
