"""Spans that tags of words mark (BIO, BIOES), and the scores of predicted tags."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.errors import ShapeError
from regard.evaluation.classification import LabelScores
from regard.evaluation.tables import Result, shorten, table
from regard.plurals import counted

_SPAN_TAG = re.compile(r"[BIES](-.+)?", re.DOTALL)
_CONFUSIONS = 10
_LABELS_SHOWN = 40


class Span(NamedTuple):
    """Consecutive words with a type."""

    start: int
    """Number of the first word, from 0."""
    end: int
    """Number of the word after the last."""
    label: str
    """Type, such as `LOC`; empty for tags without a type."""


@dataclass(frozen=True)
class TaggedSpan:
    """A span of words with a type, such as a name."""

    text: str
    """The words as they are in the text."""
    label: str
    """Type of the span, such as `LOC`."""
    start: int
    """Number of the first character in the text, from 0."""
    end: int
    """Number of the character after the last."""


def are_spans(names: Iterable[str]) -> bool:
    """Return whether tags mark spans: most of those that aren't `O` begin with B, I, E or S (BIO, BIOES).

    Others may be mistakes, such as the tag `0` for `O` in WikiGold, and are outside spans.
    """
    names = set(names) - {"O"}
    return 2 * sum(_SPAN_TAG.fullmatch(name) is not None for name in names) > len(names)


def find_spans(tags: Sequence[str]) -> list[Span]:
    """Return the spans that tags mark, by the rules of CoNLL's `conlleval`, which seqeval follows by default.

    A tag I or E continues a span whose last tag is B or I and whose type is the same; every other tag B, I, E or S begins a
    span, even an I without a B before it. All other tags, such as `O` and `_`, are outside spans.
    """
    spans: list[Span] = []
    before, label = "O", ""
    for place, tag in enumerate(tags):
        mark, _, kind = tag.partition("-")
        if mark in ("I", "E") and before in ("B", "I") and kind == label:
            spans[-1] = spans[-1]._replace(end=place + 1)
        elif mark in ("B", "I", "E", "S"):
            spans.append(Span(place, place + 1, kind))
        before, label = mark, kind
    return spans


@dataclass(frozen=True)
class TagScores(Result):
    """Scores of the tags of words. If tags mark spans, a predicted span counts as right if its words and its type are right."""

    sentences: int
    words: int
    accuracy: float
    """Share of words with the right tag, from 0 to 1."""
    f1: float
    """F1 of all spans, from 0 to 1; the accuracy if tags mark no spans."""
    precision: float
    """Share of the predicted spans that are right; the accuracy if tags mark no spans."""
    recall: float
    """Share of the true spans that are predicted; the accuracy if tags mark no spans."""
    spans: bool
    """Whether tags mark spans."""
    labels: tuple[LabelScores, ...]
    """Scores of each type of spans, or of each tag; `support` is the number of true spans or words."""
    confusions: tuple[tuple[str, str, int], ...]
    """The most frequent mistakes: true type or tag of a word, predicted type or tag, number of words. `O`: outside spans."""
    loss: float | None = None
    """Mean of −log p(tag) over the words, in nats, without words whose tags the model does not know; None if unknown."""
    unknown: tuple[str, ...] = ()
    """Tags that the model does not know."""

    def render(self) -> str:
        """Return tables for a terminal."""
        head = f"{counted(self.words, 'word')} in {counted(self.sentences, 'sentence')}\naccuracy   {100 * self.accuracy:.2f}%"
        if self.spans:
            head += f"\nspan F1    {100 * self.f1:.2f}   (precision {100 * self.precision:.2f}, recall {100 * self.recall:.2f})"
        shown = sorted(self.labels, key=lambda one: -one.support)[:_LABELS_SHOWN]
        rows = [
            [
                one.label or "(no type)",
                *(f"{100 * value:.1f}" for value in (one.precision, one.recall, one.f1)),
                f"{one.support:,}",
            ]
            for one in shown
        ]
        more = f"\n… and {len(self.labels) - len(shown)} more" if len(self.labels) > len(shown) else ""
        unit = "spans" if self.spans else "words"
        parts = [head, table(["type" if self.spans else "tag", "precision", "recall", "F1", unit], rows) + more]
        if self.confusions:
            wrong = [[right, shorten(predicted, 32), f"{count:,}"] for right, predicted, count in self.confusions]
            parts.append(f"most frequent confusions\n{table(['right', 'predicted', 'words'], wrong)}")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        if self.unknown:
            parts.append(f"tags that the model does not know: {', '.join(self.unknown[:_LABELS_SHOWN])}")
        return "\n\n".join(parts)


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, spans: bool) -> TagScores:
    """Score the predicted tags of the words of sentences, given the true tags.

    Args:
        gold: The true tags of each sentence.
        predicted: The predicted tags of each sentence.
        spans: Whether the tags of the model mark spans (`are_spans`). Without true and predicted spans, their F1 is 0.

    Raises:
        ShapeError: If there are no tags, or a sentence has more true tags than predicted ones, or fewer.
    """
    if [len(row) for row in gold] != [len(row) for row in predicted] or not any(map(len, gold)):
        sizes = f"{sum(map(len, gold)):,} true and {sum(map(len, predicted)):,} predicted"
        raise ShapeError(f"score_tags: there are {sizes} tags, expected the same number for each sentence, and at least one")
    pairs = Counter(
        (right, other) for one, two in zip(gold, predicted, strict=True) for right, other in zip(one, two, strict=True)
    )
    words, hits = pairs.total(), sum(count for (right, other), count in pairs.items() if right == other)
    units = [_units(rows, spans) for rows in (gold, predicted)]
    counts = [Counter(unit[-1] for unit in found) for found in (*units, units[0] & units[1])]
    totals = [found.total() for found in counts]
    names = sorted(counts[0].keys() | counts[1].keys())
    wrong: Counter[tuple[str, str]] = Counter()
    for pair, count in pairs.items():
        right, other = (tag.partition("-")[2] or tag if spans else tag for tag in pair)
        wrong[right, other] += count * (right != other)
    precision, recall, f1 = _rates(*totals)
    return TagScores(
        sentences=len(gold),
        words=words,
        accuracy=hits / words,
        f1=f1,
        precision=precision,
        recall=recall,
        spans=spans,
        labels=tuple(LabelScores(name, *_rates(*(found[name] for found in counts)), counts[0][name]) for name in names),
        confusions=tuple((*pair, count) for pair, count in wrong.most_common(_CONFUSIONS) if count),
    )


def _units(rows: Sequence[Sequence[str]], spans: bool) -> set[tuple[int, int, int, str]]:
    """Return the spans of all sentences, or all words with their tags, each with the number of the sentence."""
    found = (find_spans(row) if spans else [Span(place, place + 1, tag) for place, tag in enumerate(row)] for row in rows)
    return {(number, *span) for number, row in enumerate(found) for span in row}


def _rates(true: int, given: int, hits: int) -> tuple[float, float, float]:
    """Return precision, recall and F1; 0/0 counts as 0."""
    return hits / max(given, 1), hits / max(true, 1), 2 * hits / max(true + given, 1)
