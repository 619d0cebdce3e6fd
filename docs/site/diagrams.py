"""Diagrams of architectures as SVG, in the colours of the page that shows them: ```` ```{diagram} transformer ````.

All diagrams are 400 units wide, so that their text can be read on a phone. The classes of their shapes are coloured by
docs/_static/diagrams.css.
"""

import itertools
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WIDTH = 400
STYLE = Path(__file__).parents[1] / "_static" / "diagrams.css"
WORDS = ("she", "opened", "the", "door")
OUTPUT = ("sie", "öffnete", "die", "Tür")


class Diagram:
    """Shapes of a diagram. Positions are the middles of shapes, from the upper left corner."""

    def __init__(self, name: str, height: int, description: str) -> None:
        self.name, self.height, self.description = name, height, description
        self._shapes: list[str] = []
        self._texts: list[str] = []  # drawn last, so that no arrow crosses them

    def box(self, x: float, y: float, text: str, *, width: float = 80, height: float = 32, kind: str = "plain") -> None:
        """Add a box with text; a line break in the text starts another line."""
        place = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}"'
        self._shapes.append(f'<rect class="{kind}" {place} rx="6"/>')
        self.text(x, y, text, kind=f"in-{kind}")

    def frame(self, left: float, top: float, width: float, height: float, text: str) -> None:
        """Add a frame behind other shapes, with its name in the upper left corner."""
        self._shapes.append(f'<rect class="frame" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="10"/>')
        self.text(left + 10, top + 15, text, kind="name")

    def text(self, x: float, y: float, text: str, *, kind: str = "note") -> None:
        """Add text in the middle of a place; a note of kind `name` or `note-left` begins there."""
        lines = text.split("\n")
        for number, line in enumerate(lines):
            down = y + 16 * (number - (len(lines) - 1) / 2)
            self._texts.append(f'<text class="{kind}" x="{x:g}" y="{down:g}" dy="0.35em">{escape(line)}</text>')

    def arrow(self, *points: tuple[float, float], kind: str = "flow", width: float | None = None) -> None:
        """Add an arrow through points; `width` is that of the line."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        style = f' style="stroke-width:{width:g}"' if width is not None else ""
        self._shapes.append(f'<path class="{kind}" d="{path}"{style} marker-end="url(#{self.name}-{kind})"/>')

    def row(self, y: float, texts: Sequence[str], *, kind: str = "plain", width: float = 80) -> list[float]:
        """Add boxes side by side over the whole width, and return the positions of their middles."""
        places = [WIDTH * (number + 0.5) / len(texts) for number in range(len(texts))]
        for x, text in zip(places, texts, strict=True):
            self.box(x, y, text, kind=kind, width=width)
        return places

    def svg(self, *, style: str = "") -> str:
        """Return the diagram as SVG; `style` is CSS for a file of its own, which gets a background of white paper."""
        heads = "".join(
            f'<marker id="{self.name}-{kind}" class="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
            for kind in ("flow", "look", "ask")
        )
        size = f'width="{WIDTH}" height="{self.height}"'
        before = f'{size}><style>{style}</style><rect {size} style="fill: #fff; stroke: none"/' if style else ""
        return (
            f'<svg class="diagram" viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.description)}" '
            f'xmlns="http://www.w3.org/2000/svg" {before}><defs>{heads}</defs>{"".join(self._shapes + self._texts)}</svg>'
        )


def attention() -> Diagram:
    """Draw one query that attends to four keys."""
    drawn = Diagram("attention", 330, "A query is compared with four keys; the softmax of the scores weighs the values.")
    weights = 0.12, 0.73, 0.11, 0.04  # the softmax of the scores below
    query, *keys = drawn.row(300, ["query", "key 1", "key 2", "key 3", "key 4"], kind="state", width=62)
    drawn.arrow((query, 284), (query, 258), (364, 258), kind="ask")
    for x, score, weight in zip(keys, (0.3, 2.1, 0.2, -0.9), weights, strict=True):
        drawn.arrow((x, 284), (x, 236))
        drawn.box(x, 220, f"{score}".replace("-", "−"), width=56)
        drawn.arrow((x, 204), (x, 156))
        drawn.box(x, 140, f"{weight}", kind="weight", width=56)
        drawn.arrow((x, 124), (240 + (x - 240) * 0.15, 66), kind="look", width=1 + 7 * weight)
    drawn.box(240, 46, "context: weighted mean of values", width=250, kind="attention")
    for y, text in ((220, "scores"), (180, "↑ softmax"), (140, "weights")):
        drawn.text(4, y, text, kind="note-left")
    return drawn


def encoder_decoder() -> Diagram:
    """Draw a translator with a recurrent encoder and decoder."""
    drawn = Diagram(
        "encoder-decoder",
        420,
        "The encoder makes a state for each source word. For each output word, the decoder's state is the query, "
        "attention forms the weighted mean of the encoder's states, and the decoder writes the next word.",
    )
    drawn.frame(2, 262, 396, 92, "encoder")
    drawn.frame(2, 52, 396, 92, "")
    drawn.text(62, 67, "decoder", kind="name")
    states = drawn.row(312, ["h₁", "h₂", "h₃", "h₄"], kind="state", width=56)
    for x, word in zip(states, WORDS, strict=True):
        drawn.text(x, 398, word, kind="word")
        drawn.arrow((x, 386), (x, 330))
    for left, right in itertools.pairwise(states):
        drawn.arrow((left + 29, 307), (right - 30, 307))
        drawn.arrow((right - 29, 318), (left + 30, 318))
    steps = drawn.row(105, ["d₁", "d₂", "d₃", "d₄"], kind="state", width=56)
    for left, right in itertools.pairwise(steps):
        drawn.arrow((left + 29, 105), (right - 30, 105))
    for x, word in zip(steps, OUTPUT, strict=True):
        drawn.arrow((x, 88), (x, 34))
        drawn.text(x, 22, word, kind="word")
    drawn.box(200, 200, "attention", width=110, kind="attention")
    for x, weight in zip(states, (0.05, 0.82, 0.03, 0.1), strict=True):
        drawn.arrow((x, 295), (200 + (x - 200) * 0.22, 218), kind="look", width=1 + 7 * weight)
    drawn.arrow((50, 122), (50, 200), (144, 200), kind="ask")
    drawn.arrow((184, 183), (156, 123), kind="look")
    drawn.text(58, 182, "query d₁", kind="note-left")
    drawn.text(184, 152, "context, for d₂", kind="note-left")
    drawn.text(322, 240, "weights", kind="note-left")
    return drawn


def _order(name: str, description: str, names: tuple[str, str, str], query: str) -> Diagram:
    """Draw one step of a decoder as three boxes, from bottom to top, with the encoder's states beside the attention."""
    drawn = Diagram(name, 300, description)
    for text, y in zip(names, (240, 160, 80), strict=True):
        looks = text.startswith("attend")
        drawn.box(132, y, text, width=250, height=44, kind="attention" if looks else "state")
        if looks:
            drawn.box(352, y, "encoder's\nstates", width=88, height=44)
            drawn.arrow((307, y), (260, y), kind="look", width=3)
    drawn.text(132, 292, query, kind="word")
    for low, high in ((280, 264), (217, 184), (137, 104), (57, 34)):
        drawn.arrow((132, low), (132, high))
    drawn.text(132, 20, "next word", kind="word")
    return drawn


def bahdanau() -> Diagram:
    """Draw a step of Bahdanau's decoder."""
    description = "Bahdanau's decoder attends with the previous state, then updates its state, then predicts."
    names = "attend with sₜ₋₁: context cₜ", "update: sₜ from sₜ₋₁, word and cₜ", "predict from sₜ, cₜ and the word"
    return _order("bahdanau", description, names, "last state sₜ₋₁, last word")


def luong() -> Diagram:
    """Draw a step of Luong's decoder."""
    description = "Luong's decoder updates its state, then attends with the new state, then predicts."
    names = "update: sₜ from sₜ₋₁ and word", "attend with sₜ: context cₜ", "predict from tanh(W [cₜ; sₜ])"
    return _order("luong", description, names, "last state sₜ₋₁, last word")


def _stack(drawn: Diagram, x: float, bottom: float, texts: Sequence[str], name: str, *, width: float = 164) -> float:
    """Draw the parts of a layer above each other in a frame, and return the top of the frame."""
    top = bottom - 46 * len(texts) - 34
    drawn.frame(x - width / 2 - 10, top, width + 20, bottom - top, name)
    for number, text in enumerate(texts):
        y = bottom - 30 - 46 * number
        drawn.box(x, y, text, width=width, kind="attention" if "attention" in text else "state")
        drawn.arrow((x, y + 30), (x, y + 17))
    return top


def transformer() -> Diagram:
    """Draw the Transformer for translation."""
    drawn = Diagram(
        "transformer",
        400,
        "The Transformer: encoder layers of self-attention and a feed-forward network; decoder layers of causal "
        "self-attention, cross-attention to the encoder's states, and a feed-forward network.",
    )
    for x, words in ((105, "she opened the door"), (295, "<s> sie öffnete die")):
        drawn.text(x, 388, words, kind="word")
        drawn.arrow((x, 377), (x, 363))
        drawn.box(x, 346, "words + positions", width=164)
        drawn.arrow((x, 330), (x, 312))
    left = _stack(drawn, 105, 310, ["self-attention", "feed-forward"], "encoder layer × N")
    right = _stack(drawn, 295, 310, ["causal self-attention", "cross-attention", "feed-forward"], "decoder layer × N")
    drawn.arrow((105, left), (105, 150), (200, 150), (200, 234), (212, 234), kind="look", width=3)
    drawn.text(105, 138, "keys and values", kind="note")
    drawn.arrow((295, right), (295, 107))
    drawn.box(295, 90, "linear + softmax", width=150)
    drawn.arrow((295, 73), (295, 42))
    drawn.text(295, 28, "sie öffnete die Tür", kind="word")
    return drawn


def language_model() -> Diagram:
    """Draw a language model."""
    drawn = Diagram(
        "language-model",
        330,
        "A language model: layers of causal self-attention and a feed-forward network; each position predicts the next word.",
    )
    drawn.text(200, 318, "she opened the", kind="word")
    drawn.arrow((200, 306), (200, 293))
    drawn.box(200, 276, "words + positions", width=190)
    drawn.arrow((200, 260), (200, 242))
    top = _stack(drawn, 200, 240, ["causal self-attention", "feed-forward"], "layer × N", width=190)
    drawn.arrow((200, top), (200, 97))
    drawn.box(200, 80, "linear + softmax", width=190)
    drawn.arrow((200, 63), (200, 38))
    drawn.text(200, 24, "opened the door", kind="word")
    return drawn


def _classifier(name: str, description: str, units: Sequence[str], states: Sequence[str], weights: Sequence[float]) -> Diagram:
    """Draw the parts that classifiers share: units, their vectors or states, attention pooling and the label."""
    drawn = Diagram(name, 320, description)
    places = drawn.row(240, states, kind="state", width=min(80, 340 / len(states)))
    for x, unit in zip(places, units, strict=True):
        drawn.text(x, 306, unit, kind="word")
        drawn.arrow((x, 294), (x, 258))
    drawn.box(200, 140, "attention pooling: weighted mean", width=270, kind="attention")
    for x, weight in zip(places, weights, strict=True):
        drawn.arrow((x, 223), (200 + (x - 200) * 0.6, 158), kind="look", width=1 + 7 * weight)
    drawn.arrow((200, 123), (200, 97))
    drawn.box(200, 80, "linear + softmax", width=160)
    drawn.arrow((200, 63), (200, 38))
    drawn.text(200, 24, "negative", kind="word")
    return drawn


def bag() -> Diagram:
    """Draw the bag classifier."""
    description = "The bag classifier pools the vectors of words and pairs of words with attention, without an encoder."
    units = "the", "film", "is", "dull", "is dull"
    return _classifier("bag", description, units, ["e₁", "e₂", "e₃", "e₄", "e₅"], (0.03, 0.05, 0.04, 0.55, 0.33))


def recurrent_classifier() -> Diagram:
    """Draw the recurrent classifier."""
    description = "The recurrent classifier pools the states of an LSTM that reads in both directions with attention."
    drawn = _classifier(
        "recurrent-classifier", description, ["the", "film", "is", "dull"], ["h₁", "h₂", "h₃", "h₄"], (0.05, 0.1, 0.6, 0.25)
    )
    for left, right in ((50, 150), (150, 250), (250, 350)):
        drawn.arrow((left + 41, 235), (right - 42, 235))
        drawn.arrow((right - 41, 246), (left + 42, 246))
    return drawn


def hierarchical() -> Diagram:
    """Draw the hierarchical classifier."""
    drawn = Diagram(
        "hierarchical",
        390,
        "The hierarchical classifier: in each sentence, attention pools the states of the words into a vector of the "
        "sentence; a second recurrent network reads these vectors, and attention pools its states into a vector of the text.",
    )
    for x, text in ((105, "sentence 1"), (295, "sentence 2")):
        drawn.frame(x - 92, 232, 184, 150, text)
        for shift, word in ((-60, "h₁"), (0, "h₂"), (60, "h₃")):
            drawn.box(x + shift, 350, word, width=46, kind="state")
            drawn.arrow((x + shift, 333), (x + shift * 0.6, 298), kind="look", width=5 if shift == 0 else 1.5)
        drawn.box(x, 280, "attention over words", width=170, kind="attention")
        drawn.arrow((x, 263), (x, 218))
        drawn.box(x, 200, "state of the sentence", width=170, kind="state")
        drawn.arrow((x, 183), (200 + (x - 200) * 0.6, 148), kind="look", width=4 if x < 200 else 2)
    drawn.arrow((191, 195), (208, 195))
    drawn.arrow((209, 206), (192, 206))
    drawn.box(200, 130, "attention over sentences", width=220, kind="attention")
    drawn.arrow((200, 113), (200, 92))
    drawn.box(200, 75, "linear + softmax", width=160)
    drawn.arrow((200, 58), (200, 36))
    drawn.text(200, 22, "label", kind="word")
    return drawn


DIAGRAMS: dict[str, Callable[[], Diagram]] = {
    build().name: build
    for build in (
        attention, encoder_decoder, bahdanau, luong, transformer, language_model, bag, recurrent_classifier, hierarchical
    )
}  # fmt: skip


class DiagramDirective(SphinxDirective):
    """The directive `diagram` with the name of a diagram."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the diagram as HTML."""
        name = self.arguments[0]
        if name not in DIAGRAMS:
            raise self.error(f"no diagram is named {name}; there are {', '.join(DIAGRAMS)}")
        return [nodes.raw("", f"<figure>{DIAGRAMS[name]().svg()}</figure>", format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("diagram", DiagramDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
