"""Weights over images as PNG, SVG or PDF: a map for each output word, for one of them, or for each layer and head.

All maps of a picture share one colour scale. Of an image on its weights, only fine lines are drawn, so that equal weights have
equal colours, which are those of the colour bar.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.plurals import counted
from regard.records import AttentionRecord, ImageSegment
from regard.records.views import Span, WordView
from regard.rendering import Over
from regard.viz import caption as captions
from regard.viz import colour, picture, places, summary
from regard.viz.colour import palette
from regard.viz.labels import isolated, label
from regard.viz.picture import Picture

# Width of a map in inches, by the maximum number of maps, and the maximum width of a row of maps of words.
_WIDTHS = ((1, 3.2), (6, 1.9), (20, 1.35), (10**9, 1.0))
_ROW, _GAP, _BETWEEN, _NAME_ROOM = 7.3, 0.12, 0.04, 0.2
_PIXELS, _FEWEST_PIXELS = 200, 48
_NAME, _MIN_WIDTH, _BAR_WIDTH, _BAR_HEIGHT = 8.0, 3.2, 1.8, 0.1


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
    image: Over = "patches",
    **options: Any,
) -> Picture:
    """Draw the weights of the words on images.

    There is a map for each word, or for the given one; or, `by_head`, a row of maps for each site, with a map for each head, of
    the given word or of the mean of all. The other arguments and errors are those of `drawing.draw`; `options` are those of
    `places.looked`.
    """
    title = summary.title(record, title)
    lines, views, said = _maps(record, sites, head, options, by_head=by_head)
    if not views[0].matrix.size:
        foot = captions.note(record) if caption else None
        return picture.draw_empty("picture of an image", captions.empty(record, sites[0]), foot, path, title)
    spans = places.places(views[0])
    if image != "beside" and any(span.segment.picture for span in spans if isinstance(span.segment, ImageSegment)):
        said += f" {places.LINES}"
    foot = (
        [*summary.other_labels(record), *_foot(record, sites, views, head, said.strip(), by_head=by_head)] if caption else None
    )
    top = colour.full_scale(*(values for line in lines for _, values in line), given=scale)
    drawn = _Drawn(spans, lines, top, image, wraps=not by_head)
    texts = [*(name for line in lines for name, _ in line), *places.names(spans), *(foot or ()), title]
    with picture.begin("picture of an image", texts, path) as figure:
        drawn.draw(figure)
        shades = picture.colours(np.concatenate([values.ravel() for line in lines for _, values in line]), top)
        place = (0.5, figure.content().y1 + 0.14, _BAR_WIDTH, _BAR_HEIGHT)
        figure.add_bar(place, shades, captions.bar_name(sites[0]), ticks=3)
        figure.finish(title, foot, least_width=_MIN_WIDTH)
    return figure


Maps = list[list[tuple[str, np.ndarray]]]
"""Lines of maps: the name and the weights of each."""


def _maps(
    record: AttentionRecord, sites: Sequence[str], head: int | None, options: dict[str, Any], *, by_head: bool
) -> tuple[Maps, list[WordView], str]:
    """Return the maps, the views that they come from, and a sentence on the rows that they show."""
    if not by_head:
        view = places.only(places.looked(record, sites[0], head, **options), "image")
        said = "The map is the mean of all patches' rows." if view.rows == (places.MEAN,) else ""
        return [list(zip(map(label, view.rows), view.matrix, strict=True))], [view], said
    lines: Maps = []
    views = []
    for site in sites:
        heads = record.num_heads(site)
        line = []
        rows = places.with_weight(places.looked(record, site, **options, earlier=True))  # the same for all heads
        for each in [None] if heads is None else range(heads):
            view = places.only(places.looked(record, site, each, **options, earlier=True).select(rows=rows), "image")
            name = label(site, 30) if each is None else f"{label(site, 30)} · head {each}"
            line.append((name, view.matrix.mean(axis=0)))
            views.append(view)
        lines.append(line)
    words = views[0].rows
    if words == (places.MEAN,):
        return lines, views, "Each map is the mean of all patches' rows."
    shown = f"the row of {isolated(label(words[0], 40))}" if len(words) == 1 else f"the mean of {counted(len(words), 'row')}"
    return lines, views, f"Each map shows {shown}."


def _foot(
    record: AttentionRecord, sites: Sequence[str], views: list[WordView], head: int | None, said: str, *, by_head: bool
) -> list[str]:
    shown, *rest = captions.write(record, sites, views, head, grid=by_head, **places.described(views[0], "map"))
    return [f"{shown} {said}".strip(), *rest]


class _Drawn:
    """Maps on their places in a picture."""

    def __init__(self, spans: list[Span], lines: Maps, scale: float, over: Over, *, wraps: bool) -> None:
        self.spans, self.scale, self.over = spans, scale, over
        self.pictures = [places.open_picture(span) for span in spans]
        aspects = [places.aspect(span, each) for span, each in zip(spans, self.pictures, strict=True)]
        first = [("", np.empty(0))] if any(self.pictures) else []
        self.lines = [first + line if number == 0 else line for number, line in enumerate(lines)]
        across = max(map(len, self.lines))
        width = next(width for most, width in _WIDTHS if across * len(lines) <= most)
        width = min(_ROW, width * len(spans) ** 0.7)
        self.height = min(3.0, (width - _BETWEEN * (len(spans) - 1)) / sum(aspects))
        self.widths = [self.height * each for each in aspects]
        self.width = sum(self.widths) + _BETWEEN * (len(spans) - 1)
        self.wraps = wraps
        if wraps:  # words continue in the next line
            [line] = self.lines
            fit = max(1, int((_ROW + _GAP) / (self.width + _GAP)))
            self.lines = [line[at : at + fit] for at in range(0, len(line), fit)]

    def draw(self, figure: Picture) -> None:
        indent = 0 if self.wraps or self.lines[0][0][1].size else 1  # below the image itself
        for row, line in enumerate(self.lines):
            for column, (name, values) in enumerate(line, indent if row else 0):
                left, top = column * (self.width + _GAP), row * (self.height + _NAME_ROOM + 0.06)
                self._draw_map(figure, name, values, left, top)

    def _draw_map(self, figure: Picture, name: str, values: np.ndarray, left: float, top: float) -> None:
        titles = [name] + [""] * (len(self.spans) - 1) if values.size else places.names(self.spans)
        for span, image, width, title in zip(self.spans, self.pictures, self.widths, titles, strict=True):
            size = (max(_FEWEST_PIXELS, round(width * _PIXELS)), max(_FEWEST_PIXELS, round(self.height * _PIXELS)))
            axes = figure.add_panel(left, top, width, self.height)
            if values.size:
                under = None if self.over == "beside" else image
                grid = places.grid(values, span)
                pixels = places.blend(grid, self.scale, size, under, smooth=self.over == "smooth")
            else:  # the image itself
                pixels = np.ones((*size[::-1], 3)) if image is None else np.asarray(image.resize(size), np.float64) / 255
            axes.imshow((pixels * 255).round().astype(np.uint8), extent=(0, 1, 1, 0), aspect="auto", interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set(linewidth=0.5, color=palette().frame)
            if title:
                title = label(title, max(4, int(14 * self.width)))
                room = min(_NAME, 72 * (self.width if values.size else width) / (0.62 * len(title)))
                colour_of_name = palette().ink if values.size else palette().grey
                axes.set_title(title, loc="left", pad=3, fontsize=room, color=colour_of_name)
            left += width + _BETWEEN
