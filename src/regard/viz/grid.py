"""All layers and heads of one kind of attention in one picture, with a row per layer and a column per head.

All maps have the same words, so words are written at the outer edges only, and every map has a name. All maps share one colour
scale. Cells are as large as readable letters, so forty words on a side are readable; the picture grows with layers and heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize

from regard.errors import RequestError, nearest
from regard.records import AttentionRecord
from regard.records.views import WordView, sides
from regard.viz import colour, picture
from regard.viz.caption import empty, note, write
from regard.viz.labels import label, runs_right_to_left
from regard.viz.picture import EDGE, FRAME, GREY, INK, SMALL_LINE, Picture

_SIZES = ((12, 8.0, 0.2), (24, 7.0, 0.14), (48, 6.5, 0.108), (100, 5.0, 0.084), (160, 4.5, 0.076))
"""Font size in points and side of a cell in inches, by the maximum number of words on a side. With more words, no word
is written.
"""
_LARGEST = 60.0
"""Maximum total length in inches of the maps in a row or column. If maps with words would be longer, no word is written."""
_WORDLESS_SIDE, _WORDLESS_ROW, _WORDLESS_CELL = 8.0, 40.0, 2 / 150
"""For maps without words, in inches: maximum length of a map, usual length of a row or column of maps, minimum cell side."""
_TITLE, _TITLE_LINE = 11.0, 0.22
_GAP, _NAME, _NAME_ROOM, _LEAST, _MIN_WIDTH = 0.14, 7.5, 0.19, 0.9, 3.6
_BAR_WIDTH, _BAR_HEIGHT, _BAR_ROOM = 1.8, 0.1, 0.4
_GUIDE = 5
"""Number of words between the thin guide lines of a map."""


@dataclass(frozen=True)
class _Layout:
    """Layout of the picture, in inches from its top left corner."""

    width: float
    height: float
    left: float
    top: float
    across: float
    down: float
    bar_top: float
    font_size: float
    named: bool
    upright: bool
    title: list[str]
    foot: list[str]

    def place(self, row: int, column: int) -> tuple[float, float, float, float]:
        return (
            self.left + column * (self.across + _GAP),
            self.top + row * (self.down + _GAP + _NAME_ROOM) + _NAME_ROOM,
            self.across,
            self.down,
        )


def sites_of(record: AttentionRecord, family: str) -> list[str]:
    """Return the sites of a family in the order of the record: `encoder.0`, `encoder.1`, … for `encoder` or `encoder.*`.

    If no site has such a name, but one has exactly the name of the family, return this one.
    """
    family = family.removesuffix(".*")
    return [site for site in record.sites if site.startswith(f"{family}.")] or [site for site in record.sites if site == family]


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    family: str,
    title: str | None = None,
    special: bool = False,
    caption: bool = True,
    dpi: float = 150,
) -> Picture:
    """Draw every head of every site of a family.

    Args:
        record: The record.
        path: File to write, as .png, .svg or .pdf; by default, no file is written.
        family: Prefix of the sites' names, such as `encoder`, `cross` or `decoder`. A site with exactly this name, which
            summarises the others, is drawn only if there are no others.
        title: Text at the top; by default, none.
        special: If True, special tokens are rows and columns like words.
        caption: If False, the picture has no text below it.
        dpi: Pixels per inch; it is reduced if a side would have more than 30,000 pixels.

    Raises:
        RequestError: If there is no such family, the file has another ending, or `dpi` is not from 10 to 2400.
        DataError: If the file cannot be written.
    """
    ending = picture.check("grid", path, dpi)
    sites = sites_of(record, family)
    if not sites:
        families = sorted({site.split(".")[0] for site in record.sites})
        raise RequestError(
            f"the record has no sites of the family {family!r}, only of {', '.join(families)}{nearest(family, families)}"
        )
    maps = [_heads(record, site, special) for site in sites]
    views = [view for row in maps for _, view in row]
    rows, columns = ([label(word, 24) for word in words] for words in (views[0].rows, views[0].columns))
    turned = runs_right_to_left(columns)
    columns = columns[::-1] if turned else columns
    if not rows or not columns:
        return picture.draw_empty("grid", [empty(record, sites[0]), *(note(record) if caption else [])], path, title, dpi)
    shape = (len(sites), max(map(len, maps)))
    foot = _foot(record, sites, views, shape) if caption else []
    families, complaint = picture.find_fonts("grid", [*rows, *columns, *foot, *sites, title or ""], ending)
    with picture.blank(families) as figure:
        layout = _lay_out(figure, rows, columns, shape, foot + complaint * caption, title)
        figure.resize(layout.width, layout.height, dpi)
        figure.write_title(layout.title, _TITLE, _TITLE_LINE)
        values = np.concatenate([view.matrix.ravel() for view in views])
        colours = picture.colours(values, colour.full_scale(values))
        _draw_maps(figure, layout, sites, maps, colours, turned=turned)
        _draw_words(figure, layout, maps, rows, columns)
        figure.write("weight", EDGE, layout.bar_top + _BAR_HEIGHT / 2, va="center", fontsize=7, color=GREY)
        place = (EDGE + 0.5, layout.bar_top, _BAR_WIDTH, _BAR_HEIGHT)
        picture.draw_bar(figure, place, ScalarMappable(colours[1], colours[0]), "weight", ticks=3, lying=True)
        figure.write_foot(layout.foot)
    figure.save(path)
    return figure


_NAMES = {"source": "source", "target": "output"}
_Maps = Sequence[Sequence[tuple[str, WordView]]]


def _foot(record: AttentionRecord, sites: Sequence[str], views: Sequence[WordView], shape: tuple[int, int]) -> list[str]:
    down, across = (f"{_NAMES[side]} {record.unit(side)}s" for side in sides(sites[0]))
    rows, columns = views[0].rows, views[0].columns
    axes = f"Down: {down}. Across: {across}{', from right to left' if runs_right_to_left(columns) else ''}."
    axes += f" A line after every {_GUIDE} words." if max(len(rows), len(columns)) > _GUIDE else ""
    named = _cells(len(rows), len(columns), shape)[0] > 0
    axes += "" if named else " Words are not written, because the picture would be too large; draw one head to see them."
    shown, *rest = write(record, sites, views, grid=True)
    return [f"{shown} {axes}", *rest]


def _heads(record: AttentionRecord, site: str, special: bool) -> list[tuple[str, WordView]]:
    """Return the name and the view of each head of a site, or of the whole site if it has no heads."""
    heads, name = record.num_heads(site), label(site, 30)
    if heads is None:
        return [(name, record.view(site, special=special))]
    return [(f"{name} · head {head}", record.view(site, head, special=special)) for head in range(heads)]


def _cells(rows: int, columns: int, shape: tuple[int, int]) -> tuple[float, float]:
    """Return the font size of the words in points (0 if none is written), and the side of a cell in inches."""
    most = max(rows, columns)
    size = next((x[1:] for x in _SIZES if most <= x[0]), None)
    if size is not None and max(shape[0] * rows, shape[1] * columns) * size[1] <= _LARGEST:
        return size
    return 0.0, min(_WORDLESS_SIDE, max(_WORDLESS_ROW / max(shape), _WORDLESS_CELL * most)) / most


def _lay_out(
    figure: Picture, rows: list[str], columns: list[str], shape: tuple[int, int], foot: Sequence[str], title: str | None
) -> _Layout:
    font_size, cell = _cells(len(rows), len(columns), shape)
    named = font_size > 0
    across, down = max(_LEAST, len(columns) * cell), max(cell, len(rows) * cell)
    beside, above, upright = 0.0, 0.0, False
    if named:
        beside, widest = (max(figure.measure(words, font_size)) for words in (rows, columns))
        upright = widest + 0.06 > across / len(columns)
        beside, above = beside + 0.08, (widest if upright else font_size * 1.4 / 72) + 0.08
    left = EDGE + beside
    width = max(_MIN_WIDTH, left + shape[1] * (across + _GAP) - _GAP + beside + EDGE)
    heads = figure.wrap(label(title, 200), width - 2 * EDGE, _TITLE) if title else []
    top = EDGE + len(heads) * _TITLE_LINE + (0.08 if heads else 0.0) + above
    bar_top = top + shape[0] * (down + _GAP + _NAME_ROOM) - _GAP + above + 0.16
    lines = [part for text in foot for part in figure.wrap(text, width - 2 * EDGE)]
    height = bar_top + _BAR_ROOM + len(lines) * SMALL_LINE + EDGE
    return _Layout(width, height, left, top, across, down, bar_top, font_size, named, upright, heads, lines)


def _draw_maps(
    figure: Picture,
    layout: _Layout,
    sites: Sequence[str],
    maps: _Maps,
    colours: tuple[ListedColormap, Normalize],
    *,
    turned: bool,
) -> None:
    for row, site in enumerate(sites):
        for column, (name, view) in enumerate(maps[row]):
            matrix = view.matrix[:, ::-1] if turned else view.matrix
            place = layout.place(row, column)
            axes = figure.add_axes(figure.box(*place), label=f"{site} {column}")
            extent = (0, matrix.shape[1], matrix.shape[0], 0)
            axes.imshow(matrix, cmap=colours[0], norm=colours[1], extent=extent, aspect="auto", interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            for line in range(_GUIDE, matrix.shape[1], _GUIDE):
                axes.axvline(matrix.shape[1] - line if turned else line, color=FRAME, linewidth=0.25, alpha=0.6)
            for line in range(_GUIDE, matrix.shape[0], _GUIDE):
                axes.axhline(line, color=FRAME, linewidth=0.25, alpha=0.6)
            for spine in axes.spines.values():
                spine.set_linewidth(0.5)
            size = min(_NAME, 72 * layout.across / (0.62 * len(name)))
            figure.write(name, place[0], place[1] - 0.03, va="bottom", fontsize=size, color=GREY)


def _draw_words(figure: Picture, layout: _Layout, maps: _Maps, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw row words at the left and right ends, and column words above the first and below the last layer."""
    if not layout.named:
        return
    style = {"fontsize": layout.font_size, "color": INK}
    angle = 90 if layout.upright else 0
    step_across, step_down = layout.across / len(columns), layout.down / len(rows)
    for row, heads in enumerate(maps):
        left, top, *_ = layout.place(row, 0)
        right = layout.place(row, len(heads) - 1)[0] + layout.across
        for number, word in enumerate(rows):
            middle = top + (number + 0.5) * step_down
            figure.write(word, left - 0.05, middle, ha="right", **{**style, "va": "center_baseline"})
            figure.write(word, right + 0.05, middle, ha="left", **{**style, "va": "center_baseline"})
    for column in range(max(map(len, maps))):
        lowest = max(row for row, heads in enumerate(maps) if column < len(heads))
        left = layout.place(0, column)[0]
        upper = layout.top
        lower = layout.place(lowest, column)[1] + layout.down
        for number, word in enumerate(columns):
            middle = left + (number + 0.5) * step_across
            if column < len(maps[0]):
                figure.write(word, middle, upper - 0.02, ha="center", rotation=angle, **{**style, "va": "bottom"})
            figure.write(word, middle, lower + 0.04, ha="center", rotation=angle, **{**style, "va": "top"})
