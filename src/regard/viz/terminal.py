"""A record in a terminal: a matrix with source words as columns and output words as rows, or the words of a classification.

Weights are colours if the terminal has them. Without colours, shades and digits show the weights of a matrix, and numbers
those of the words with the largest weights. Wide sentences are split into blocks of source words.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.console import SafeConsole
from regard.evaluation.tables import shorten
from regard.plurals import plural
from regard.records import AttentionRecord
from regard.records.views import WordView, sides
from regard.rendering import Over
from regard.viz import caption as captions
from regard.viz import colour, places
from regard.viz.labels import isolated, label
from regard.viz.numbers import decimals, fixed, greatest, probability, units
from regard.viz.summary import further_labels, headline, most_weight
from regard.viz.terminal_places import print_places

# Minimum and maximum width of a column, and the maximum share of a line for the words of the rows.
_LEAST, _MOST, _ROW_SHARE = 5, 12, 0.34
_SHADES = " ░▒▓█"
_STEPS = 20
# If the full scale (the weight with the darkest colour) is below this or above 1, numbers are hundredths of it, not of 1.
_FEWEST_HUNDREDTHS = 0.1
# Style of words that are not in the model's vocabulary.
_UNKNOWN = Style(underline=True)
_MOST_LABELS = 10
# Maximum number of words with numbers if there are no colours; each has at least a tenth of the largest weight.
_MOST_NUMBERS = 8


def render(
    record: AttentionRecord,
    console: Console | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    special: bool = False,
    caption: bool = True,
    word: str | int | None = None,
    image: Over = "patches",
    between: tuple[str, str] | None = None,
) -> None:
    """Print the weights of a record: coloured words for a classification, maps of images, else a matrix of hundredths.

    The width and the colours of the console, by default standard output, decide how the weights are printed. The other
    arguments are those of `drawing.draw`.
    """
    console = console or SafeConsole()
    site = record.site(site)
    if image != "matrix" and (of := places.kind(record, site)):
        _render_places(record, console, site, head, of, special=special, caption=caption, word=word, between=between)
        return
    view = record.view(site, head, special=special, between=between).with_p_gen()
    sentences = captions.write(record, [site], [view], head) if caption else []
    if record.is_classification and sides(site) == ("target", "source"):
        weights = view.means
        words = [label(word) for word in view.columns]
        sentences = [most_weight(words, weights), *sentences] if caption else []
        _print_classification(record, words, view.unknown_columns, weights, console)
    elif view.matrix.size:
        down, across = (
            f"{name} {plural(record.unit(side))}" for name, side in zip(captions.axis_names(site), sides(site), strict=True)
        )
        _print_matrix(view, down, across, console)
    else:
        console.print(Text(captions.empty(record, site)))
    for sentence in filter(None, sentences):
        console.print(Text(sentence, style="dim"))


def _render_places(
    record: AttentionRecord,
    console: Console,
    site: str,
    head: int | None,
    of: str,
    *,
    caption: bool,
    **options: Any,
) -> None:
    view = places.looked(record, site, head, **options)
    if not view.matrix.size:
        console.print(Text(captions.empty(record, site)))
        return
    view = places.only(view, of)
    view, silence = places.without_silence(view) if of == "sound" else (view, "")
    if record.is_classification:
        console.print(Text(headline(record, with_probability=True), style="bold"))
    print_places(view, console, has_colours=_has_colours(console), can_shade=_can_encode(console, _SHADES))
    described = places.described(view, "map" if of == "image" else "row")
    sentences = captions.write(record, [site], [view], head, **described) if caption else []
    for sentence in filter(None, [*sentences[:1], silence, *sentences[1:]]):
        console.print(Text(sentence, style="dim"))


def _has_colours(console: Console) -> bool:
    """Return False if there is no terminal, it has no colours, or NO_COLOR is set."""
    return console.color_system is not None and not console.no_color


def _can_encode(console: Console, letters: str) -> bool:
    """Return whether the encoding of the output can represent the letters."""
    try:
        letters.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@lru_cache
def _ramp(anchors: tuple[str, ...]) -> list[Style]:
    return [Style(color=colour.ink(shade), bgcolor=colour.to_hex(shade)) for shade in colour.ramp(anchors, _STEPS + 1)]


def _paint(share: float) -> Style:
    """Return the style of a weight; the weight is given as a share of the full scale, from −1 to 1."""
    return _ramp(colour.LIGHT_NEGATIVE if share < 0 else colour.LIGHT)[round(min(1.0, abs(share)) * _STEPS)]


def _print_matrix(view: WordView, down: str, across: str, console: Console) -> None:
    """Print words and weights in hundredths, in blocks of columns that fit the console, and a line that explains the digits."""
    matrix = view.matrix
    rows, columns = ([label(word) for word in words] for words in (view.rows, view.columns))
    room = console.width - 1  # a full line would make some terminals wrap
    row_width = min(max(map(cell_len, rows)), max(_LEAST, int(room * _ROW_SHARE)))
    widths = [min(_MOST, max(_LEAST, cell_len(word) + 1)) for word in columns]
    scale = colour.full_scale(matrix)
    # Hundredths of 1 would all be 0 for very small weights, and too wide for large ones.
    unit = 1.0 if _FEWEST_HUNDREDTHS <= scale <= 1 else scale
    hundredths = np.reshape(units(matrix / unit, 2), matrix.shape)
    for block in _blocks(widths, room - row_width - 1):
        lines = [
            Text(" " * (row_width + 1)),
            *(_aligned(*word, row_width, spare_before=1.0).append(" ") for word in zip(rows, view.unknown_rows, strict=True)),
            Text(),
        ]
        for column in block:
            name = shorten(columns[column], widths[column] - 1)
            lines[0].append_text(_aligned(name, view.unknown_columns[column], widths[column]))
            for line, digits, weight in zip(
                lines[1:-1], hundredths[:, column].tolist(), matrix[:, column].tolist(), strict=True
            ):
                line.append_text(_cell(digits, weight / scale, widths[column], console))
        for line in lines:
            console.print(line, no_wrap=True, overflow="crop", soft_wrap=False)
    digits = "hundredths" if unit == 1 else f"hundredths of {unit:g}"
    console.print(Text(f"Weights in {digits}: {across} across, {down} down.", style="dim"))


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Split the columns into blocks that fit; a column that is wider than the console forms a block alone."""
    blocks: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        if used + width > room and blocks[-1]:
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += width
    return blocks


def _cell(hundredths: int, share: float, width: int, console: Console) -> Text:
    digits = str(hundredths) if hundredths else "·"
    if _has_colours(console):
        return Text(f"{digits:^{width}}", style=_paint(share))
    if not _can_encode(console, _SHADES + "·"):
        return Text(f"{'.' if digits == '·' else digits:^{width}}")
    shade = _SHADES[min(len(_SHADES) - 1, int(min(1.0, abs(share)) * len(_SHADES)))]
    return Text(f"{f'{digits:>3}{shade}':^{width}}")


def _aligned(word: str, is_unknown: bool, width: int, spare_before: float = 0.5) -> Text:
    """Return a word, shortened or with spaces, that takes `width` cells; `spare_before` is the share of spaces before it."""
    word = shorten(word, width)
    spare = width - cell_len(word)
    before = int(spare * spare_before)
    return Text.assemble(" " * before, (isolated(word), _UNKNOWN if is_unknown else ""), " " * (spare - before))


def _print_classification(
    record: AttentionRecord, words: Sequence[str], unknown: Sequence[bool], weights: np.ndarray, console: Console
) -> None:
    """Print the label, the words, and a line with a bar for each of the most probable labels."""
    console.print(Text(headline(record, with_probability=False), style="bold"))
    if _has_colours(console):
        shares = (weights / (greatest(weights) or 1.0)).tolist()
        chips = [Text(f" {word} ", style=_paint(share)) for word, share in zip(words, shares, strict=True)]
    else:
        chips = _numbered(words, weights)
    for chip, word, is_unknown in zip(chips, words, unknown, strict=True):
        if is_unknown:
            chip.highlight_words([word], _UNKNOWN)
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    names = [label(name) for name, _ in ranked[:_MOST_LABELS]]
    width = min(max(map(cell_len, names)), max(5, console.width // 3))
    room = max(1, min(40, console.width - width - 8))
    full = "█" if _can_encode(console, "█") else "#"
    lines = [*_flow(chips, console.width - 1), Text()]
    for name, (_, value) in zip(names, ranked, strict=False):
        name = shorten(name, width)
        lines.append(Text(f"{name}{' ' * (width - cell_len(name))} {probability(value):>5} {full * round(room * value)}"))
    if further := further_labels(len(ranked) - _MOST_LABELS):
        lines.append(Text(further, style="dim"))
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop")


def _numbered(words: Sequence[str], weights: np.ndarray) -> list[Text]:
    """Return the words; those with the largest weights are bold and followed by their weight."""
    top = greatest(weights)
    chips = [Text(word) for word in words]
    for index in np.argsort(-np.abs(weights), kind="stable")[:_MOST_NUMBERS]:
        if abs(weights[index]) >= 0.1 * top > 0:
            chips[index].stylize(Style(bold=True))
            chips[index].append(f"({fixed(float(weights[index]), decimals(top))})")
    return chips


def _flow(chips: Sequence[Text], room: int) -> list[Text]:
    """Arrange words in lines of at most `room` columns. Wider words are truncated."""
    lines = [Text()] if chips else [Text("The text has no words.", style="dim")]
    for chip in chips:
        chip.truncate(room, overflow="ellipsis")
        if lines[-1].cell_len + 1 + chip.cell_len > room and lines[-1].cell_len:
            lines.append(Text())
        lines[-1].append_text(Text(" ") if lines[-1].cell_len else Text()).append_text(chip)
    return lines
