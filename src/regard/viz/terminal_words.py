"""A classification in a terminal: words coloured by their weights, or with numbers if there are no colours."""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.records import AttentionRecord
from regard.records.views import WordView
from regard.viz.labels import label
from regard.viz.numbers import decimals, fixed, greatest, probability
from regard.viz.shades import can_encode, colourless, paint
from regard.viz.summary import further_labels, headline, most_weight

_MOST_LABELS = 10
_FIGURES = 8
"""Maximum number of words with numbers if there are no colours; each has at least a tenth of the largest weight."""


def render(record: AttentionRecord, console: Console, view: WordView, prints: Sequence[str]) -> None:
    """Print the label, the words, the probabilities and the captions; see `terminal.render`."""
    weights = view.matrix.sum(axis=0, dtype=np.float64) / max(1, len(view.matrix))
    words = [label(word) for word in view.columns]
    console.print(Text(headline(record, with_probability=False), style="bold"))
    chips = (_plain if colourless(console) else _coloured)(words, weights)
    for line in [*_flow(chips, console.width - 1), Text(), *_probabilities(record, console)]:
        console.print(line, no_wrap=True, overflow="crop")
    for sentence in (most_weight(words, weights), *prints) if prints else ():
        if sentence:
            console.print(Text(sentence, style="dim"))


def _coloured(words: Sequence[str], weights: np.ndarray) -> list[Text]:
    scale = float(np.abs(weights).max(initial=0.0)) or 1.0
    return [Text(f" {word} ", style=paint(weight / scale)) for word, weight in zip(words, weights.tolist(), strict=True)]


def _plain(words: Sequence[str], weights: np.ndarray) -> list[Text]:
    """Return the words; those with the largest weights are underlined and followed by their weight."""
    top = greatest(weights)
    least, places = 0.1 * top, decimals(top)
    marked = [index for index in np.argsort(-np.abs(weights), kind="stable")[:_FIGURES] if abs(weights[index]) >= least > 0]
    chips = [Text(word) for word in words]
    for index in marked:
        chips[index].stylize(Style(underline=True, bold=True))
        chips[index].append(f"({fixed(float(weights[index]), places)})")
    return chips


def _flow(chips: Sequence[Text], room: int) -> list[Text]:
    """Arrange words in lines of at most `room` columns; a word that is wider than a line is truncated."""
    lines = [Text()] if chips else [Text("The text has no words.", style="dim")]
    for chip in chips:
        chip.truncate(room, overflow="ellipsis")
        if lines[-1].cell_len + 1 + chip.cell_len > room and lines[-1].cell_len:
            lines.append(Text())
        lines[-1].append_text(Text(" ") if lines[-1].cell_len else Text()).append_text(chip)
    return lines


def _probabilities(record: AttentionRecord, console: Console) -> list[Text]:
    """Return a line with a bar for each of the most probable labels, and the number of further labels."""
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    shown = [(label(name), value) for name, value in ranked[:_MOST_LABELS]]
    width = min(max(cell_len(name) for name, _ in shown), max(5, console.width // 3))
    room = max(1, min(40, console.width - width - 8))
    full = "█" if can_encode(console, "█") else "#"
    lines = []
    for name, value in shown:
        name = name if cell_len(name) <= width else set_cell_size(name, width - 1).rstrip() + "…"
        bar = full * round(room * value)
        lines.append(Text(f"{name}{' ' * (width - cell_len(name))} {probability(value):>5} {bar}"))
    further = further_labels(len(ranked) - _MOST_LABELS)
    return [*lines, *([Text(further, style="dim")] if further else [])]
