"""Records with special tokens, of each kind of model."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from regard.records import AttentionRecord


def bert() -> AttentionRecord:
    """Two words between [CLS] and [SEP]; their rows have 0.7 and 0.2 of their weight on these."""
    weights = [[0.4, 0.1, 0.1, 0.4], [0.3, 0.2, 0.1, 0.4], [0.1, 0.5, 0.3, 0.1], [0.25, 0.25, 0.25, 0.25]]
    return make({"encoder.0": weights}, ["[CLS]", "a", "b", "[SEP]"], [])


def make(weights, source, target, **fields) -> AttentionRecord:
    """A record of tokens, of which those in brackets are special."""

    def side(tokens):
        words = [token for token in tokens if token[0] not in "[<"]
        numbers = iter(range(len(words)))
        return words, [-1 if token[0] in "[<" else next(numbers) for token in tokens]

    source_words, source_word_of = side(source)
    target_words, target_word_of = side(target)
    return AttentionRecord(
        source_tokens=source,
        target_tokens=target,
        source_words=source_words,
        target_words=target_words,
        source_word_of=source_word_of,
        target_word_of=target_word_of,
        weights=weights,
        **fields,
    )


def translation(**fields) -> AttentionRecord:
    """Two source words and two output words, each with its end symbol; at the sites of all kinds."""
    flat = np.full((3, 3), 1 / 3)
    causal = np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None]
    weights = {"cross": flat, "encoder.0": flat, "decoder.0": causal}
    return make(weights, ["a", "b", "</s>"], ["x", "y", "</s>"], **fields)


def texts(path: Path) -> list[str]:
    """The texts of an SVG file, line by line."""
    return ["".join(element.itertext()) for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def shown_texts(figure: Figure) -> list[Text]:
    """The texts that a figure shows."""
    FigureCanvasAgg(figure).draw()
    return [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def boxes_of(figure: Figure, texts: Sequence[Text], *, slack: float = 0) -> list[Bbox]:
    """The boxes of texts of a figure, each of which must be inside of it, up to some pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts]
    for text, box in zip(texts, boxes, strict=True):
        assert min(box.x0, box.y0) >= -slack, text
        assert box.x1 <= figure.bbox.x1 + slack, text
        assert box.y1 <= figure.bbox.y1 + slack, text
    return boxes
