"""Accuracy, F1 and confusions of predicted labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from regard.evaluation.checks import check_choices, check_indicators, check_scores
from regard.evaluation.tables import Result, shorten, table
from regard.plurals import counted

_MATRIX_LABELS = 12
"""Maximum number of labels for which confusions are shown as a matrix; with more, the most frequent confusions are listed."""
_CONFUSIONS = 20


@dataclass(frozen=True)
class LabelScores:
    """Scores of one label, from 0 to 1; 0/0 counts as 0."""

    label: str
    precision: float
    """Share of the texts predicted to have the label that really have it."""
    recall: float
    """Share of the texts with the label that were predicted to have it."""
    f1: float
    """2 · precision · recall / (precision + recall)."""
    support: int
    """Number of texts with this label."""


@dataclass(frozen=True)
class Scores(Result):
    """Scores of predictions of one label for each text."""

    texts: int
    accuracy: float
    macro_f1: float
    """Mean F1 of all labels that occur among the true or the predicted labels."""
    labels: tuple[LabelScores, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Number of texts by true label (row) and predicted label (column)."""

    def render(self) -> str:
        """Return the table of labels, and the confusions, for a terminal."""
        summary = f"{counted(self.texts, 'text')}\naccuracy   {100 * self.accuracy:.2f}%\nmacro F1   {100 * self.macro_f1:.2f}"
        return f"{summary}\n\n{_render_labels(self.labels)}\n\n{self._render_confusion()}"

    def _render_confusion(self) -> str:
        names = [one.label for one in self.labels]
        if len(names) <= _MATRIX_LABELS:
            header = ["right ↓   predicted →", *(shorten(name, 12) for name in names)]
            return table(header, [[name, *map(str, row)] for name, row in zip(names, self.confusion, strict=True)])
        rows = [
            [names[right], shorten(names[given], 32), str(self.confusion[right][given])]
            for right, given in most_confused(np.array(self.confusion), _CONFUSIONS)
        ]
        return table(["right", "predicted", "texts"], rows) if rows else "no confusions"


@dataclass(frozen=True)
class SeveralScores(Result):
    """Scores of predictions of any number of labels for each text."""

    texts: int
    accuracy: float
    """Share of texts whose labels are all correct (subset accuracy)."""
    micro_f1: float
    """F1 over all pairs of a text and a label."""
    macro_f1: float
    """Mean F1 of all labels that occur among the true or the predicted labels."""
    labels: tuple[LabelScores, ...]

    def render(self) -> str:
        """Return the table of labels, for a terminal."""
        return (
            f"{counted(self.texts, 'text')}\nexact match  {100 * self.accuracy:.2f}%\nmicro F1     {100 * self.micro_f1:.2f}\n"
            f"macro F1     {100 * self.macro_f1:.2f}\n\n{_render_labels(self.labels)}"
        )


def score_labels(predicted: Int[np.ndarray, " N"], labels: Int[np.ndarray, " N"], names: Sequence[str]) -> Scores:
    """Score predictions of one label for each text.

    Args:
        predicted: Index of each text's predicted label, from 0.
        labels: Index of each text's true label.
        names: The name of each label.

    Raises:
        ShapeError: If the shapes do not match, an index is out of range, or there are no texts or no names.
    """
    check_choices("score_labels", len(names), predicted=predicted, labels=labels)
    size = len(names)
    confusion = np.bincount(labels.astype(np.int64) * size + predicted, minlength=size * size).reshape(size, size)
    hits, given, support = confusion.diagonal(), confusion.sum(0), confusion.sum(1)
    return Scores(
        texts=len(labels),
        accuracy=int(hits.sum()) / len(labels),
        macro_f1=float(macro_f1(hits, given, support)),
        labels=_label_scores(names, hits, given, support),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def score_several(
    predicted: Shaped[np.ndarray, "N C"], labels: Shaped[np.ndarray, "N C"], names: Sequence[str]
) -> SeveralScores:
    """Score predictions of any number of labels for each text.

    Args:
        predicted: 1 or True for the labels that the model predicts for a text.
        labels: 1 or True for the true labels of a text.
        names: The name of each label.

    Raises:
        ShapeError: If the shapes do not match, a value is neither 0 nor 1, or there are no texts or no names.
    """
    check_indicators("score_several", len(names), predicted=predicted, labels=labels)
    found, right = predicted.astype(bool), labels.astype(bool)
    hits, given, support = (found & right).sum(0), found.sum(0), right.sum(0)
    decided = int(given.sum() + support.sum())
    return SeveralScores(
        texts=len(labels),
        accuracy=float((found == right).all(1).mean()),
        micro_f1=2 * int(hits.sum()) / decided if decided else 0.0,
        macro_f1=float(macro_f1(hits, given, support)),
        labels=_label_scores(names, hits, given, support),
    )


def most_confused(counts: Int[np.ndarray, "C C"], limit: int = 5) -> list[tuple[int, int]]:
    """Return the pairs (true label, predicted label) with the largest counts off the diagonal, the largest first.

    Pairs with a count of zero are left out.
    """
    errors = counts * (1 - np.eye(len(counts), dtype=int))
    order = np.argsort(-errors, axis=None, kind="stable")[:limit]
    places = zip(*(axis.tolist() for axis in np.unravel_index(order, errors.shape)), strict=True)
    return [(right, given) for right, given in places if errors[right, given]]


def macro_f1(
    hits: Shaped[np.ndarray, "*R C"], given: Shaped[np.ndarray, "*R C"], support: Shaped[np.ndarray, "*R C"]
) -> Float[np.ndarray, "*R"] | np.floating:
    """Return the mean of F1 = 2 · hits / (given + support) over the labels that occur.

    Args:
        hits: Number of texts that have the label and for which the label was predicted.
        given: Number of texts for which the label was predicted.
        support: Number of texts that have the label.

    Returns:
        A number from 0 to 1; 0 if no label occurs.
    """
    decided = given + support
    f1 = 2 * hits / np.maximum(decided, 1)
    return f1.sum(-1) / np.maximum((decided > 0).sum(-1), 1)


def negative_log_likelihood(
    logits: Float[np.ndarray, "N C"], labels: Int[np.ndarray, " N"] | Shaped[np.ndarray, "N C"]
) -> float:
    """Return the mean over texts of −log p(label | text), natural logarithm.

    If a text can have several labels, each label is a separate decision, yes or no, and −log p is summed over these decisions.

    Args:
        logits: Scores before the softmax, or before the sigmoid if a text can have several labels.
        labels: Index of each text's label, (N,); if a text can have several labels, (N,C), with 1 or True for its labels.

    Raises:
        ShapeError: If the shapes do not match, there are no texts, a label is invalid, or a logit is not finite.
    """
    check_scores("negative_log_likelihood", logits, labels, "logits")
    scores = logits.astype(np.float64)
    if labels.ndim == 2:
        return float(np.logaddexp(0, np.where(labels.astype(bool), -scores, scores)).sum(axis=1).mean())
    right = np.take_along_axis(scores, labels[:, None].astype(np.int64), 1)[:, 0]
    return float((np.logaddexp.reduce(scores, axis=1) - right).mean())


def _label_scores(names: Sequence[str], hits: np.ndarray, given: np.ndarray, support: np.ndarray) -> tuple[LabelScores, ...]:
    scores = (hits / np.maximum(given, 1), hits / np.maximum(support, 1), 2 * hits / np.maximum(given + support, 1), support)
    return tuple(LabelScores(*row) for row in zip(names, *(column.tolist() for column in scores), strict=True))


def _render_labels(labels: Sequence[LabelScores]) -> str:
    rows = [
        [one.label, f"{100 * one.precision:.1f}", f"{100 * one.recall:.1f}", f"{100 * one.f1:.1f}", f"{one.support:,}"]
        for one in labels
    ]
    return table(["label", "precision", "recall", "F1", "texts"], rows)
