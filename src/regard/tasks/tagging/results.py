"""One tagged sentence: words, tags, spans and attention."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from regard.evaluation.spans import TaggedSpan, find_spans
from regard.records import AttentionRecord
from regard.tasks.results import Prediction, record_side, shortened, table
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class TaggedText(Prediction):
    """One sentence with the tags of its words."""

    text: str
    """The sentence."""
    words: tuple[str, ...]
    """Its words and punctuation marks."""
    tags: tuple[str, ...]
    """The most probable tag of each word."""
    probabilities: np.ndarray = field(compare=False)
    """Probability of each word's tag."""
    places: tuple[int, ...] = field(default=(), compare=False)
    """Number of the first character of each word in the sentence."""
    marks_spans: bool = field(default=False, compare=False)
    """Whether the tags of the model mark spans (BIO)."""

    @property
    def spans(self) -> tuple[TaggedSpan, ...]:
        """The spans that the tags mark, in order; none if the model's tags mark no spans."""
        found = []
        for first, end, label in find_spans(self.tags) if self.marks_spans else ():
            start, stop = self.places[first], self.places[end - 1] + len(self.words[end - 1])
            found.append(TaggedSpan(self.text[start:stop], label, start, stop))
        return tuple(found)

    def __repr__(self) -> str:
        found = "; ".join(f"{span.text} ({span.label})" for span in self.spans) if self.marks_spans else " ".join(self.tags)
        return f"TaggedText({shortened(self.text)} → {shortened(found) if found else 'no spans'})"

    def _repr_html_(self) -> str:
        rows = zip(self.words, self.tags, self.probabilities.tolist(), strict=True)
        note = ".attention shows what the model attended to for each tag" if self._build else ""
        return table("", [(word, f"{tag} {share:.1%}") for word, tag, share in rows], note)


def build_record(
    found: TaggedText, tokenizer: Tokenizer, ids: np.ndarray, word_of: np.ndarray, attention: Mapping[str, np.ndarray]
) -> AttentionRecord:
    """Build the attention record of a tagged sentence, whose output words are the words with their tags."""
    tagged = tuple(f"{word}/{tag}" for word, tag in zip(found.words, found.tags, strict=True))
    vocabulary = tokenizer.vocabulary()
    tokens = [vocabulary[number] for number in ids.tolist()]
    return AttentionRecord(
        **record_side("source", tokenizer, tokens, found.words, word_of.tolist(), found.text),
        target_tokens=tagged,
        target_words=tagged,
        target_word_of=tuple(range(len(tagged))),
        weights=dict(attention),
        log_probability=float(np.log(np.maximum(found.probabilities, 1e-300)).sum()),
    )
