"""How often predicted labels are right, and which labels they are."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from regard.evaluation.checks import check_choices, check_indicators, check_names, check_scores
from regard.evaluation.tables import shorten, table
from regard.plurals import counted

_MATRIX_LABELS = 12
"""Labels up to which the confusions are shown as a matrix; of more labels, the most frequent confusions."""
_CONFUSIONS = 20


@dataclass(frozen=True)
class LabelScores:
    """How one label fares, from 0 to 1. What would be 0/0 is 0."""

    label: str
    precision: float
    """Of the texts that were given it, the part that has it."""
    recall: float
    """Of the texts that have it, the part that was given it."""
    f1: float
    """2 · precision · recall / (precision + recall)."""
    support: int
    """Number of texts with this label."""


@dataclass(frozen=True)
class Scores:
    """Predictions of one label for each text, against the right ones."""

    texts: int
    accuracy: float
    macro_f1: float
    """Mean F1 of the labels that some text has or was given."""
    labels: tuple[LabelScores, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Texts by right label (row) and predicted label (column)."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    def render(self) -> str:
        """Return the table of labels, and the confusions, for a terminal."""
        summary = f"{counted(self.texts, 'text')}\naccuracy   {100 * self.accuracy:.2f}%\nmacro F1   {100 * self.macro_f1:.2f}"
        return f"{summary}\n\n{_render_labels(self.labels)}\n\n{self._render_confusion()}"

    def _render_confusion(self) -> str:
        names = [one.label for one in self.labels]
        if len(names) <= _MATRIX_LABELS:
            header = ["right ↓   predicted →", *(shorten(name, 12) for name in names)]
            return table(header, [[name, *map(str, row)] for name, row in zip(names, self.confusion, strict=True)])
        pairs = [
            (count, names[right], names[given])
            for right, row in enumerate(self.confusion)
            for given, count in enumerate(row)
            if count and right != given
        ]
        pairs.sort(key=lambda pair: -pair[0])
        rows = [[name, shorten(given, 32), str(count)] for count, name, given in pairs[:_CONFUSIONS]]
        return table(["right", "predicted", "texts"], rows) if rows else "no confusions"


@dataclass(frozen=True)
class SeveralScores:
    """Predictions of any number of labels for each text, against the right ones."""

    texts: int
    accuracy: float
    """Part of the texts whose labels are all right: subset accuracy."""
    micro_f1: float
    """F1 of all decisions together."""
    macro_f1: float
    """Mean F1 of the labels that some text has or was given."""
    labels: tuple[LabelScores, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    def render(self) -> str:
        """Return the table of labels, for a terminal."""
        return (
            f"{counted(self.texts, 'text')}\nexact match  {100 * self.accuracy:.2f}%\nmicro F1     {100 * self.micro_f1:.2f}\n"
            f"macro F1     {100 * self.macro_f1:.2f}\n\n{_render_labels(self.labels)}"
        )


def score_labels(predicted: Int[np.ndarray, " N"], labels: Int[np.ndarray, " N"], names: Sequence[str]) -> Scores:
    """Score predictions of one label for each text.

    Args:
        predicted: Numbers of labels, from 0.
        labels: The right ones.
        names: The name of each label.

    Raises:
        ShapeError: If the arrays do not fit, or there are no texts.
    """
    check_names("score_labels", names)
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
        predicted: 1 or True where a text was given a label.
        labels: 1 or True where it has it.
        names: The name of each label.

    Raises:
        ShapeError: If the arrays do not fit, or there are no texts.
    """
    check_names("score_several", names)
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


def macro_f1(
    hits: Shaped[np.ndarray, "*R C"], given: Shaped[np.ndarray, "*R C"], support: Shaped[np.ndarray, "*R C"]
) -> Float[np.ndarray, "*R"] | np.floating:
    """Return the mean over the labels of F1 = 2 · hits / (given + support); labels that no text has or was given do not count.

    Args:
        hits: Texts that have a label and were given it.
        given: Texts that were given it.
        support: Texts that have it.

    Returns:
        From 0 to 1; 0 where no label counts.
    """
    decided = given + support
    f1 = 2 * hits / np.maximum(decided, 1)
    return f1.sum(-1) / np.maximum((decided > 0).sum(-1), 1)


def negative_log_likelihood(
    logits: Float[np.ndarray, "N C"], labels: Int[np.ndarray, " N"] | Shaped[np.ndarray, "N C"]
) -> float:
    """Return the mean over texts of −log p(label | text), natural logarithm.

    Of texts with several labels, −log p of all its decisions.

    Args:
        logits: Before the softmax, or before the sigmoid where texts have several labels.
        labels: Numbers (N,), or for several labels whether a text has each (N,C).

    Raises:
        ShapeError: If the arrays do not fit.
    """
    check_scores("negative_log_likelihood", logits, labels, "logits")
    scores = logits.astype(np.float64)
    if labels.ndim == 2:
        return float(np.logaddexp(0, np.where(labels.astype(bool), -scores, scores)).sum(axis=1).mean())
    right = np.take_along_axis(scores, labels[:, None].astype(np.int64), 1)[:, 0]
    return float((np.logaddexp.reduce(scores, axis=1) - right).mean())


def _label_scores(names: Sequence[str], hits: np.ndarray, given: np.ndarray, support: np.ndarray) -> tuple[LabelScores, ...]:
    precision, recall = hits / np.maximum(given, 1), hits / np.maximum(support, 1)
    f1 = 2 * hits / np.maximum(given + support, 1)
    return tuple(
        LabelScores(name, float(precision[i]), float(recall[i]), float(f1[i]), int(support[i])) for i, name in enumerate(names)
    )


def _render_labels(labels: Sequence[LabelScores]) -> str:
    rows = [
        [one.label, f"{100 * one.precision:.1f}", f"{100 * one.recall:.1f}", f"{100 * one.f1:.1f}", f"{one.support:,}"]
        for one in labels
    ]
    return table(["label", "precision", "recall", "F1", "texts"], rows)
