"""Accuracy, F1 and confusions of predicted labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from regard.errors import ShapeError
from regard.evaluation.tables import Result, shorten, table
from regard.plurals import counted

# Maximum number of labels for which confusions are shown as a matrix; with more, the most frequent confusions are listed.
_MATRIX_LABELS = 12
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
    """Scores of predicted labels. If a text can have several labels, each label is a separate decision."""

    texts: int
    accuracy: float
    """Share of texts with the right label, or with exactly the right labels (subset accuracy)."""
    macro_f1: float
    """Mean F1 of all labels that occur among the true or the predicted labels."""
    labels: tuple[LabelScores, ...]
    confusion: tuple[tuple[int, ...], ...] | None = None
    """Number of texts by true label (row) and predicted label (column); None if a text can have several labels."""
    micro_f1: float | None = None
    """F1 over all pairs of a text and a label; None if each text has one label."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without scores that these texts do not have."""
        return {name: value for name, value in super().to_dict().items() if value is not None}

    def render(self) -> str:
        """Return the table of labels, and the confusions, for a terminal."""
        head, macro = counted(self.texts, "text"), f"{100 * self.macro_f1:.2f}"
        rows = [
            [one.label, f"{100 * one.precision:.1f}", f"{100 * one.recall:.1f}", f"{100 * one.f1:.1f}", f"{one.support:,}"]
            for one in self.labels
        ]
        labels = table(["label", "precision", "recall", "F1", "texts"], rows)
        if self.confusion is None:
            exact, micro = f"{100 * self.accuracy:.2f}%", f"{100 * (self.micro_f1 or 0):.2f}"
            return f"{head}\nexact match  {exact}\nmicro F1     {micro}\nmacro F1     {macro}\n\n{labels}"
        confusions = self._render_confusion(self.confusion)
        return f"{head}\naccuracy   {100 * self.accuracy:.2f}%\nmacro F1   {macro}\n\n{labels}\n\n{confusions}"

    def _render_confusion(self, confusion: tuple[tuple[int, ...], ...]) -> str:
        names = [one.label for one in self.labels]
        if len(names) <= _MATRIX_LABELS:
            header = ["right ↓   predicted →", *(shorten(name, 12) for name in names)]
            return table(header, [[name, *map(str, row)] for name, row in zip(names, confusion, strict=True)])
        rows = [
            [names[right], shorten(names[predicted], 32), str(confusion[right][predicted])]
            for right, predicted in most_confused(np.array(confusion), _CONFUSIONS)
        ]
        return table(["right", "predicted", "texts"], rows) if rows else "no confusions"


def check_labels(caller: str, num_labels: int, **arrays: np.ndarray) -> None:
    """Check that arrays, by name, have the same number of rows, and hold indices of labels (N,), or ones and zeros (N,C)."""
    if len({len(array) for array in arrays.values()}) > 1 or not all(map(len, arrays.values())):
        sizes = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise ShapeError(f"{caller}: the numbers of texts are {sizes}, expected the same number of each, at least one")
    for name, array in arrays.items():
        indices = array.ndim == 1 and array.dtype.kind in "iu" and array.min() >= 0 and array.max() < num_labels
        if not indices and not (array.ndim == 2 and array.shape[1] == num_labels and np.isin(array, (0, 1)).all()):
            raise ShapeError(
                f"{caller}: {name} is {array.dtype} {array.shape}, expected labels of each text: numbers from 0 to "
                f"{num_labels - 1} (N,), or ones and zeros (N,{num_labels})"
            )


def score_labels(predicted: Shaped[np.ndarray, "N ..."], labels: Shaped[np.ndarray, "N ..."], names: Sequence[str]) -> Scores:
    """Score predicted labels: indices (N,) or, if a text can have several, ones and zeros (N,C), as the true labels."""
    check_labels("score_labels", len(names), predicted=predicted, labels=labels)
    size, confusion, micro_f1 = len(names), None, None
    if labels.ndim == 1:
        # Each pair of a true and a predicted label is one number.
        matrix = np.bincount(labels.astype(np.int64) * size + predicted, minlength=size * size).reshape(size, size)
        hits, given, support = matrix.diagonal(), matrix.sum(0), matrix.sum(1)
        accuracy, confusion = int(hits.sum()) / len(labels), tuple(tuple(row) for row in matrix.tolist())
    else:
        found, right = predicted.astype(bool), labels.astype(bool)
        hits, given, support = (found & right).sum(0), found.sum(0), right.sum(0)
        accuracy, micro_f1 = float((found == right).all(1).mean()), 2 * int(hits.sum()) / max(int((given + support).sum()), 1)
    columns = (hits / np.maximum(given, 1), hits / np.maximum(support, 1), 2 * hits / np.maximum(given + support, 1), support)
    return Scores(
        texts=len(labels),
        accuracy=accuracy,
        macro_f1=float(macro_f1(hits, given, support)),
        labels=tuple(LabelScores(*row) for row in zip(names, *(column.tolist() for column in columns), strict=True)),
        confusion=confusion,
        micro_f1=micro_f1,
    )


def most_confused(counts: Int[np.ndarray, "C C"], limit: int = 5) -> list[tuple[int, int]]:
    """Return the pairs (true label, predicted label) with the largest counts above zero off the diagonal, the largest first."""
    errors = counts * (1 - np.eye(len(counts), dtype=int))
    order = np.argsort(-errors, axis=None, kind="stable")[:limit]
    places = zip(*(axis.tolist() for axis in np.unravel_index(order, errors.shape)), strict=True)
    return [(right, given) for right, given in places if errors[right, given]]


def macro_f1(
    hits: Shaped[np.ndarray, "*R C"], given: Shaped[np.ndarray, "*R C"], support: Shaped[np.ndarray, "*R C"]
) -> Float[np.ndarray, "*R"] | np.floating:
    """Return the mean of F1 = 2 · hits / (given + support) over the labels that occur; 0 if none does.

    Args:
        hits: Number of texts that have the label and for which the label was predicted.
        given: Number of texts for which the label was predicted.
        support: Number of texts that have the label.
    """
    decided = given + support
    f1 = 2 * hits / np.maximum(decided, 1)
    return f1.sum(-1) / np.maximum((decided > 0).sum(-1), 1)


def negative_log_likelihood(
    logits: Float[np.ndarray, "N C"], labels: Int[np.ndarray, " N"] | Shaped[np.ndarray, "N C"]
) -> float:
    """Return the mean over texts of −log p(label | text), natural logarithm.

    If a text can have several labels, each label is a separate decision, yes or no, and −log p is summed over these decisions.
    """
    check_labels("negative_log_likelihood", logits.shape[1], labels=labels)
    scores = logits.astype(np.float64)
    if labels.ndim == 2:
        return float(np.logaddexp(0, np.where(labels.astype(bool), -scores, scores)).sum(axis=1).mean())
    right = np.take_along_axis(scores, labels[:, None].astype(np.int64), 1)[:, 0]
    return float((np.logaddexp.reduce(scores, axis=1) - right).mean())
