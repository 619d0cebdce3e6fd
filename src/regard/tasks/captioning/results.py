"""One text about an image, by the model or given: text, scores and attention."""

from dataclasses import dataclass, field

import numpy as np

import regard.records
from regard.decoding import Hypothesis
from regard.records import AttentionRecord
from regard.tasks.results import Prediction, shortened, table, target_side
from regard.text.captions.images import Grid, Pixels
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class Caption(Prediction):
    """One text about one image, by the model or given by the caller."""

    image: str
    """Name of the image's file; empty for an image without a file."""
    text: str
    """The text."""
    score: float
    """Score that ranks hypotheses; see `regard.decoding.score_of`."""
    log_probability: float
    """log p(text | image), natural logarithm, including the end symbol if `finished`."""
    finished: bool = True
    """Whether the model ended the text; False if the length limit cut it off."""
    alternatives: list["Caption"] = field(default_factory=list)
    """The other texts of `n_best`, by decreasing score."""
    token_log_probabilities: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32), compare=False)
    """Log probabilities of the tokens of the text, and of the end symbol if `finished`."""

    def __repr__(self) -> str:
        cut = "" if self.finished else ", unfinished"
        return f"Caption({shortened(self.image or 'an image')} → {shortened(self.text)}, log p {self.log_probability:.2f}{cut})"

    def _repr_html_(self) -> str:
        rows = [("image", self.image), ("text", self.text), ("log p", f"{self.log_probability:.2f}")]
        rows += [(f"{one.log_probability:.2f}", one.text) for one in self.alternatives]
        return table("", rows, ".attention shows where the model looked for each word" if self._build else "")


def build_record(
    hypothesis: Hypothesis, cells: Pixels, grid: Grid, tokenizer: Tokenizer, image: str, text: str, reference: str | None
) -> AttentionRecord:
    """Build the attention record of a text about an image; the arguments are those of a translation's `build_record`."""
    picture = regard.records.patches(grid.rows, grid.columns, grid.join(cells))
    names = picture.places()
    return AttentionRecord(
        source_tokens=names,
        source_words=names,
        source_word_of=tuple(range(len(names))),
        source_text=image,
        source_segments=(picture,),
        **target_side(hypothesis, tokenizer, {}, text, reference),
        weights=hypothesis.attention,
        score=hypothesis.score,
        log_probability=hypothesis.log_probability,
    )
