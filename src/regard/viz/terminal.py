"""The heatmap in a terminal: columns are source words, rows are output words, with colours if the terminal has them.

Wide sentences are split into blocks of source words. Without colours, shades and digits show the weights.
"""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from regard.console import SafeConsole
from regard.records import AttentionRecord
from regard.records.views import WordView, sides
from regard.viz import caption as captions
from regard.viz import colour, terminal_words
from regard.viz.labels import isolated, label
from regard.viz.numbers import units
from regard.viz.shades import can_encode, colourless, paint

_LEAST, _MOST, _ROW_SHARE = 5, 12, 0.34
_NAMES = {"source": "source", "target": "output"}
_SHADES = " ░▒▓█"
_FEWEST_HUNDREDTHS = 0.1
"""If the full scale (the weight with the darkest colour) is below this or above 1, numbers are hundredths of it, not of 1."""


def render(
    record: AttentionRecord,
    console: Console | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    special: bool = False,
    caption: bool = True,
) -> None:
    """Print the weights of a record over words: coloured words for a classification, else a matrix of hundredths.

    Args:
        record: The record.
        console: Console to print to; by default, standard output. Its width and its colours decide how the weights are
            printed.
        site: Site to show; by default `cross`, `pool`, or the only site.
        head: Head to show, from 0; by default the mean over heads.
        special: If True, special tokens are shown like words.
        caption: If False, no caption is printed.

    Raises:
        RequestError: If there is no such site or head.
    """
    console = console or SafeConsole()
    site = record.site(site)
    view = record.view(site, head, special=special)
    prints = captions.write(record, [site], [view], head) if caption else []
    if record.is_classification and sides(site) == ("target", "source"):
        terminal_words.render(record, console, view, prints)
        return
    if view.matrix.size:
        _print_matrix(view, [f"{_NAMES[side]} {record.unit(side)}s" for side in sides(site)], console)
    else:
        console.print(Text(captions.empty(record, site)))
    for sentence in prints:
        console.print(Text(sentence, style="dim"))


def _print_matrix(view: WordView, names: Sequence[str], console: Console) -> None:
    """Print words and weights in hundredths, in blocks of columns that fit the console, and a line that explains the digits."""
    matrix = view.matrix
    rows, columns = ([label(word) for word in words] for words in (view.rows, view.columns))
    room = console.width - 1  # a full line would make some terminals wrap
    row_width = min(max(map(cell_len, rows)), max(_LEAST, int(room * _ROW_SHARE)))
    widths = [min(_MOST, max(_LEAST, cell_len(word) + 1)) for word in columns]
    scale = colour.full_scale(matrix)
    unit = 1.0 if _FEWEST_HUNDREDTHS <= scale <= 1 else scale
    hundredths = np.reshape(units(matrix / unit, 2), matrix.shape)
    for first, last in _blocks(widths, room - row_width - 1):
        heads = Text(" " * (row_width + 1))
        for word, width in zip(columns[first:last], widths[first:last], strict=True):
            heads.append(_centred(word, width))
        _print(console, heads)
        for row, word in enumerate(rows):
            line = Text(_right(word, row_width) + " ")
            for column in range(first, last):
                share = float(matrix[row, column]) / scale
                line.append_text(_cell(int(hundredths[row, column]), share, widths[column], console))
            _print(console, line)
        _print(console, Text(""))
    digits = "hundredths" if unit == 1 else f"hundredths of {unit:g}"
    down, across = names
    console.print(Text(f"Weights in {digits}: {across} across, {down} down.", style="dim"))


def _print(console: Console, text: Text) -> None:
    console.print(text, no_wrap=True, overflow="crop", soft_wrap=False)


def _blocks(widths: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Split the columns into blocks that fit; a column that is wider than the console forms a block alone."""
    blocks, first, used = [], 0, 0
    for index, width in enumerate(widths):
        if used + width > room and index > first:
            blocks.append((first, index))
            first, used = index, 0
        used += width
    return [*blocks, (first, len(widths))]


def _cell(hundredths: int, share: float, width: int, console: Console) -> Text:
    digits = str(hundredths) if hundredths else "·"
    if not colourless(console):
        return Text(f"{digits:^{width}}", style=paint(share))
    if not can_encode(console, _SHADES + "·"):
        return Text(f"{'.' if digits == '·' else digits:^{width}}")
    shade = _SHADES[min(len(_SHADES) - 1, int(min(1.0, abs(share)) * len(_SHADES)))]
    return Text(f"{f'{digits:>3}{shade}':^{width}}")


def _cut(word: str, width: int) -> str:
    return word if cell_len(word) <= width else set_cell_size(word, width - 1).rstrip() + "…"


def _centred(word: str, width: int) -> str:
    word = _cut(word, width - 1)
    spare = width - cell_len(word)
    return " " * (spare // 2) + isolated(word) + " " * (spare - spare // 2)


def _right(word: str, width: int) -> str:
    word = _cut(word, width)
    return " " * (width - cell_len(word)) + isolated(word)
