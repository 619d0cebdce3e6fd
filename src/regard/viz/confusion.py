"""The confusion matrix as PNG, SVG or PDF.

Rows are true labels, columns are predicted labels, and colours show the shares of a row.

With few labels, cells contain counts. With many labels, letters are smaller and counts are left out; with very many, names are
left out, too. The caption lists the most frequent confusions.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from regard.evaluation.classification import most_confused
from regard.plurals import counted
from regard.viz import picture
from regard.viz.labels import isolated, label
from regard.viz.numbers import percent
from regard.viz.picture import Picture

# Font size in points and side of a cell in inches, by the maximum number of labels. With more labels, names are left out.
_SIZES = ((6, 10.0, 0.62), (14, 9.0, 0.44), (30, 8.0, 0.3), (60, 7.0, 0.14), (250, 6.8, 0.11))
# Maximum number of labels for which cells are widened to fit horizontal names, and their maximum width in inches.
_ROOMY, _WIDEST = 6, 1.2
_NUMBERS_FROM, _NAMELESS, _LARGEST = 0.29, 250, 20.0
_CAPTION = (
    "The colours of a row show, for the texts with this true label, the share of each predicted label. They do not show why "
    "the model confuses labels."
)
_MIN_WIDTH = 4.6


def draw(
    counts: Int[np.ndarray, "C C"],
    names: Sequence[str],
    path: str | Path | None = None,
    *,
    title: str | None = None,
    caption: bool = True,
) -> Picture:
    """Draw how often each true label (row) was predicted as each label (column).

    The default title is the accuracy and the number of texts; `path` and `caption` are those of `drawing.draw`.
    """
    total = int(counts.sum())
    accuracy = f"Accuracy {np.trace(counts) / total:.1%}, " if total else ""
    top = label(f"{accuracy}{counted(total, 'text')}" if title is None else title, 200)
    nameless = [f"Labels are not written, because there are more than {_NAMELESS}."] if len(names) > _NAMELESS else []
    foot = [_CAPTION, *nameless, *_in_words(counts, names)] if caption else None
    shown = [] if nameless else [label(name, 32) for name in names]
    size, cell = next((x[1:] for x in _SIZES if len(names) <= x[0]), (8.0, _LARGEST / len(names)))
    with picture.begin("confusion matrix", [*shown, *(foot or ()), top], path) as figure:
        widest = max(figure.measure(shown, size), default=0.0)
        # With few labels, wider cells let the names stay horizontal.
        if len(names) <= _ROOMY and widest + 0.14 <= _WIDEST:
            cell = max(cell, widest + 0.14)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        number_size = 9.0 if cell > 0.5 else 7.5 if cell > 0.4 else 6.0
        numbers = [str(count) if count or len(names) <= _ROOMY else "" for count in counts.ravel().tolist()]
        picture.draw_matrix(
            figure,
            shares,
            picture.colours(shares, 1.0),
            (shown, shown),
            cell=(cell, cell),
            names=("true", "predicted", "share of the row"),
            angle=90 if widest + 0.1 > cell else 0,
            size=size,
            numbers=numbers if cell >= _NUMBERS_FROM else (),
            number_size=min(number_size, cell * 72 * 1.5 / len(str(counts.max()))),
        )
        figure.finish(top, foot, least_width=_MIN_WIDTH)
    return figure


def _in_words(counts: np.ndarray, names: Sequence[str]) -> list[str]:
    pairs = most_confused(counts, 5 if len(names) <= 30 else 10)
    if not pairs:
        return ["No text got a wrong label."] if counts.any() else ["There are no texts."]
    shown = [isolated(label(name, 60)) for name in names]
    lines = [
        f"{counts[row, column]} × {shown[row]} → {shown[column]} "
        f"({percent(counts[row, column] / counts[row].sum())} of {shown[row]})"
        for row, column in pairs
    ]
    return ["Most often confused, true label → predicted label:", *lines] if len(names) > 2 else lines
