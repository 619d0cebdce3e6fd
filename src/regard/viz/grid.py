"""All layers and heads of one kind of attention in one picture, with a row per layer and a column per head.

All maps have the same words, so words are written at the outer edges only, and every map has a name. All maps share one colour
scale. Cells are as large as readable letters, so forty words on a side are readable; the picture grows with layers and heads.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable

from regard.errors import RequestError, nearest
from regard.plurals import plural
from regard.records import AttentionRecord
from regard.records.attribution import attribution_of
from regard.records.views import WordView, sides
from regard.viz import colour, picture
from regard.viz.caption import axis_names, empty, note, write
from regard.viz.colour import palette
from regard.viz.labels import label, runs_right_to_left
from regard.viz.picture import Picture

# Font size in points and side of a cell in inches, by the maximum number of words on a side. With more words, no word is
# written.
_SIZES = ((12, 8.0, 0.2), (24, 7.0, 0.14), (160, 6.8, 0.11))
# Maximum total length in inches of the maps in a row or column. If maps with words would be longer, no word is written.
_LARGEST = 60.0
# For maps without words, in inches: maximum length of a map, usual length of a row or column of maps, minimum cell side.
_WORDLESS_SIDE, _WORDLESS_ROW, _WORDLESS_CELL = 8.0, 40.0, 2 / 150
_GAP, _NAME, _NAME_ROOM, _LEAST, _MIN_WIDTH = 0.14, 7.5, 0.19, 0.9, 3.6
_BAR_WIDTH, _BAR_HEIGHT = 1.8, 0.1
# Number of words between the thin guide lines of a map.
_GUIDE = 5


def sites_of(record: AttentionRecord, family: str) -> list[str]:
    """Return the sites of a family in the order of the record: `encoder.0`, `encoder.1`, … for `encoder` or `encoder.*`.

    If no site has such a name, but one has exactly the name of the family, return this one.
    """
    family = family.removesuffix(".*")
    weights = [site for site in record.sites if not attribution_of(site)]  # attributions have scales of their own
    return [site for site in weights if site.startswith(f"{family}.")] or [site for site in record.sites if site == family]


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    family: str,
    title: str | None = None,
    special: bool = False,
    caption: bool = True,
    scale: float | None = None,
    between: tuple[str, str] | None = None,
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
        scale: As for `drawing.draw`.
        between: As for `AttentionRecord.view`.

    Raises:
        RequestError: If there is no such family, or the file has another ending.
        DataError: If the file cannot be written.
    """
    sites = sites_of(record, family)
    if not sites:
        families = sorted({site.split(".")[0] for site in record.sites})
        raise RequestError(
            f"the record has no sites of the family {family!r}, only of {', '.join(families)}{nearest(family, families)}"
        )
    maps = [_heads(record, site, special=special, between=between) for site in sites]
    views = [view for row in maps for _, view in row]
    title = label(title, 200) if title else ""
    rows, columns = ([label(word, 24) for word in words] for words in (views[0].rows, views[0].columns))
    if not rows or not columns:
        return picture.draw_empty("grid", empty(record, sites[0]), note(record) if caption else None, path, title)
    across, down = max(map(len, maps)), len(maps)
    size, cell = _cells(len(rows), len(columns), (down, across))
    foot = _foot(record, sites, views, size > 0) if caption else None
    # One scale for all maps, so that heads can be compared.
    shades = picture.colours(
        np.concatenate([view.matrix.ravel() for view in views]),
        colour.full_scale(*(view.matrix for view in views), given=scale),
    )
    turned, unknown_columns = runs_right_to_left(columns), views[0].unknown_columns
    columns, unknown_columns = (columns[::-1], unknown_columns[::-1]) if turned else (columns, unknown_columns)
    with picture.begin("grid", [*rows, *columns, *(foot or ()), *sites, title], path) as figure:
        width, height = max(_LEAST, len(columns) * cell), len(rows) * cell
        upright = size > 0 and max(figure.measure(columns, size)) + 0.06 > width / len(columns)
        for row, heads in enumerate(maps):
            for column, (name, view) in enumerate(heads):
                axes = figure.add_panel(column * (width + _GAP), row * (height + _GAP + _NAME_ROOM), width, height)
                _draw_map(axes, view.matrix[:, ::-1] if turned else view.matrix, shades, turned=turned)
                picture.draw_borders(axes, view, turned=turned, width=0.6)
                axes.set_title(
                    name, loc="left", pad=3, fontsize=min(_NAME, 72 * width / (0.62 * len(name))), color=palette().grey
                )
                ends: dict[str, Any] = {
                    "labelleft": column == 0,
                    "labelright": column == len(heads) - 1,
                    "labeltop": row == 0,
                    "labelbottom": all(len(others) <= column for others in maps[row + 1 :]),
                }
                axes.tick_params(length=0, pad=3, labelsize=size, labelcolor=palette().ink, **ends)
                if size and (ends["labeltop"] or ends["labelbottom"]):
                    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=90 if upright else 0)
                    picture.underline_unknown(axes.get_xticklabels(), unknown_columns)
                if size and (ends["labelleft"] or ends["labelright"]):
                    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
                    picture.underline_unknown(axes.get_yticklabels(), views[0].unknown_rows)
        place = (0.5, figure.content().y1 + 0.16, _BAR_WIDTH, _BAR_HEIGHT)
        figure.add_bar(place, shades, "weight", ticks=3)
        figure.finish(title, foot, least_width=_MIN_WIDTH)
    return figure


def _foot(record: AttentionRecord, sites: Sequence[str], views: Sequence[WordView], has_words: bool) -> list[str]:
    down, across = (
        f"{name} {plural(record.unit(side))}" for name, side in zip(axis_names(sites[0]), sides(sites[0]), strict=True)
    )
    rows, columns = views[0].rows, views[0].columns
    axes = f"Down: {down}. Across: {across}{', from right to left' if runs_right_to_left(columns) else ''}."
    axes += f" A line after every {_GUIDE} rows and columns." if max(len(rows), len(columns)) > _GUIDE else ""
    axes += "" if has_words else " They are not written, because the picture would be too large; draw one head to see them."
    shown, *rest = write(record, sites, views, grid=True)
    return [f"{shown} {axes}", *rest]


def _heads(record: AttentionRecord, site: str, **options: Any) -> list[tuple[str, WordView]]:
    """Return the name and the view of each head of a site, or of the whole site if it has no heads."""
    heads, name = record.num_heads(site), label(site, 30)
    if heads is None:
        return [(name, record.view(site, **options))]
    return [(f"{name} · head {head}", record.view(site, head, **options)) for head in range(heads)]


def _cells(rows: int, columns: int, shape: tuple[int, int]) -> tuple[float, float]:
    """Return the font size of the words in points (0 if none is written), and the side of a cell in inches."""
    most = max(rows, columns)
    size = next((x[1:] for x in _SIZES if most <= x[0]), None)
    if size is not None and max(shape[0] * rows, shape[1] * columns) * size[1] <= _LARGEST:
        return size
    return 0.0, min(_WORDLESS_SIDE, max(_WORDLESS_ROW / max(shape), _WORDLESS_CELL * most)) / most


def _draw_map(axes: Axes, matrix: np.ndarray, shades: ScalarMappable, *, turned: bool) -> None:
    """Draw the weights of one head, without words; `turned` says that the columns run from right to left."""
    rows, columns = matrix.shape
    low, high = shades.get_clim()
    place: Any = {"extent": (0, columns, rows, 0), "aspect": "auto", "interpolation": "nearest"}
    axes.imshow(matrix, cmap=shades.cmap, vmin=low, vmax=high, **place)
    axes.set_xticks([])
    axes.set_yticks([])
    for line in range(_GUIDE, columns, _GUIDE):
        axes.axvline(columns - line if turned else line, color=palette().frame, linewidth=0.25, alpha=0.6)
    for line in range(_GUIDE, rows, _GUIDE):
        axes.axhline(line, color=palette().frame, linewidth=0.25, alpha=0.6)
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)
