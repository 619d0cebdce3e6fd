"""Weights on images and sounds in a terminal: a small map for each word, or a line along time."""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.evaluation.tables import shorten
from regard.records import SoundSegment
from regard.records.views import Span, WordView
from regard.viz import colour, places
from regard.viz.labels import isolated, label
from regard.viz.numbers import tick

# Maximum width and height of a map in pixels, of which a cell of the terminal has two, one above the other.
_WIDTH, _HEIGHT = 28, 32
_SHADES, _DIGITS = "·░▒▓█", ".123456789"
# Marks of negative weights. Zero has the first mark of the positive weights.
_NEGATIVE = "-=%#"
_ROW_SHARE = 0.3
# Minimum width of maps beside each other; narrower ones are printed below each other.
_LEAST = 8


def print_places(view: WordView, console: Console, *, has_colours: bool, can_shade: bool) -> None:
    """Print the weights of each row on images and sounds, on one scale, and a line that explains the colours."""
    spans = places.places(view)
    scale = colour.full_scale(*(view.matrix[:, span.start : span.end] for span in spans))
    shades = "" if has_colours else _SHADES if can_shade else _DIGITS
    if spans[0].segment.kind == "image":
        _print_maps(view, [span for span in spans if span.segment.kind == "image"], scale, shades, console)
    else:
        for span, name in zip(spans, places.names(spans), strict=True):
            _print_times(view, span, name, scale, shades, console)
    strongest = "the darkest colour" if has_colours else shades[-1]
    lowest = "0"
    if any((view.matrix[:, span.start : span.end] < 0).any() for span in spans):
        lowest = f"-{tick(scale)}, which is {'the darkest red' if has_colours else _NEGATIVE[-1]},"
        strongest = "the darkest blue" if has_colours else strongest
    console.print(Text(f"Weights from {lowest} to {tick(scale)}, which is {strongest}.", style="dim"))


def _print_maps(view: WordView, spans: Sequence[Span], scale: float, shades: str, console: Console) -> None:
    """Print the maps of each word: side by side if the terminal is wide enough, otherwise one below the other."""
    room = console.width - 1
    share = (room + 1) // len(spans) - 1
    is_tall = share < _LEAST
    blocks = []
    for name, row in zip(view.rows, view.matrix, strict=True):
        maps = [_map(_fit(places.grid(row, span), room if is_tall else share), scale, shades) for span in spans]
        height = max(map(len, maps))
        beside = [
            Text(" ").join([each[line] if line < len(each) else Text(" " * each[0].cell_len) for each in maps])
            for line in range(height)
        ]
        lines = [line for each in maps for line in (*each, Text())][:-1] if is_tall else beside
        word = shorten(label(name), max(3, *(line.cell_len for line in lines)))
        title = Text.assemble((isolated(word), "bold"))
        blocks.append([title, *lines])
    width = max(line.cell_len for block in blocks for line in block)
    fit = max(1, (room + 2) // (width + 2))
    for at in range(0, len(blocks), fit):
        for line in range(len(blocks[0])):
            parts = [block[line].copy() for block in blocks[at : at + fit]]
            for part in parts[:-1]:
                part.append(" " * (width - part.cell_len))
            console.print(Text("  ").join(parts), no_wrap=True, overflow="crop")
        console.print()


def _fit(grid: np.ndarray, room: int) -> np.ndarray:
    """Return a grid that fits: patches larger than a pixel, or the largest of several patches."""
    most = (_HEIGHT, min(_WIDTH, room))
    factor = min(limit // size for limit, size in zip(most, grid.shape, strict=True))
    if factor >= 1:
        return np.repeat(np.repeat(grid, factor, axis=0), factor, axis=1)
    share = min(limit / size for limit, size in zip(most, grid.shape, strict=True))
    for axis in (0, 1):
        grid = places.peaks(grid, max(1, int(grid.shape[axis] * share)), axis)
    return grid


def _map(grid: np.ndarray, scale: float, shades: str) -> list[Text]:
    """Return the lines of a map; in colours, a line shows two rows of pixels, else one row of pixels of two cells' width."""
    if shades:
        halves = places.peaks(grid, (len(grid) + 1) // 2, 0)  # a line is about twice as high as wide
        return [Text("".join(_shade(weight / scale, shades) for weight in row)) for row in halves]
    pixels = places.blend(grid, scale, grid.shape[::-1])
    lines = []
    for row in range(0, len(grid), 2):
        below = pixels[row + 1] if row + 1 < len(grid) else [None] * len(pixels[row])
        line = Text()
        for high, low in zip(pixels[row], below, strict=True):
            line.append("▀", Style(color=colour.to_hex(high), bgcolor=None if low is None else colour.to_hex(low)))
        lines.append(line)
    return lines


def _shade(share: float, shades: str) -> str:
    marks = shades if share >= 0 else shades[0] + _NEGATIVE
    return marks[min(len(marks) - 1, int(min(1.0, abs(share)) * len(marks)))]


def _print_times(view: WordView, span: Span, name: str, scale: float, shades: str, console: Console) -> None:
    """Print a line for each word: the largest weight of each part of the time."""
    assert isinstance(span.segment, SoundSegment)
    names = [label(row) for row in view.rows]
    width = min(max(map(cell_len, names)), int(console.width * _ROW_SHARE))
    weights = view.matrix[:, span.start : span.end]
    peaks = places.peaks(weights, console.width - width - 2, 1)
    length = peaks.shape[1]
    end = f"{weights.shape[1] * span.segment.seconds:.1f} s"
    head = f"0 {shorten(label(name), max(3, length - len(end) - 4))}"
    console.print(Text(" " * (width + 1) + head + " " * max(1, length - cell_len(head) - len(end)) + end, style="dim"))
    pixels = places.blend(peaks, scale, (length, len(names)))
    for word, row, colours in zip(names, peaks, pixels, strict=True):
        word = shorten(word, width)
        line = Text(" " * (width - cell_len(word)) + isolated(word) + " ")
        if shades:
            line.append("".join(_shade(weight / scale, shades) for weight in row))
        else:
            for shade in colours:
                line.append(" ", Style(bgcolor=colour.to_hex(shade)))
        console.print(line, no_wrap=True, overflow="crop")
