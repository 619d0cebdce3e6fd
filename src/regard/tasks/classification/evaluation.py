"""How good a classifier is on texts whose labels are known."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import DataError, RequestError
from regard.evaluation.baseline import Share, most_frequent, warn_of_one_answer
from regard.evaluation.calibration import Calibration, calibration
from regard.evaluation.classification import Scores, SeveralScores, negative_log_likelihood, score_labels, score_several
from regard.evaluation.tables import shorten

if TYPE_CHECKING:
    from regard.tasks.classification.predictor import Classifier

_MISTAKES = 10
_SHOWN = 160
"""Cells of a mistaken text in the table."""


@dataclass(frozen=True)
class Mistake:
    """A text that was labelled wrongly."""

    text: str
    label: str
    """What it has; several with commas between."""
    predicted: str
    probability: float
    """How sure the model was of what it said; where texts have several labels, of the one it was most surely wrong about."""


@dataclass(frozen=True)
class LabelledEvaluation:
    """Scores over some texts."""

    scores: Scores | SeveralScores
    loss: float
    """−log p of a text's label or labels, natural logarithm, at the model's temperature."""
    calibration: Calibration
    mistakes: tuple[Mistake, ...]
    """The most confident ones first."""
    majority: Share
    """The most frequent label, or set of labels: its share is the accuracy of always giving it."""
    warning: str = ""
    """Warning if the model gives (almost) all texts the same label; else empty."""

    @property
    def accuracy(self) -> float:
        """From 0 to 1."""
        return self.scores.accuracy

    @property
    def macro_f1(self) -> float:
        """From 0 to 1."""
        return self.scores.macro_f1

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            **self.scores.to_dict(),
            "loss": self.loss,
            "majority": asdict(self.majority),
            "warning": self.warning,
            "calibration": self.calibration.to_dict(),
            "mistakes": [asdict(mistake) for mistake in self.mistakes],
        }

    def render(self) -> str:
        """Tables for a terminal."""
        scores = self.scores.render()
        head, _, rest = scores.partition("\n\n")
        baseline = f"baseline   {100 * self.majority.share:.2f}%   (always '{shorten(self.majority.label, 40)}')"
        parts = [f"{head}\n{baseline}\n\n{rest}", f"loss {self.loss:.4f}, {self.calibration.render()}"]
        if self.mistakes:
            parts.append("the most confident mistakes:")
            parts += [
                f"  {mistake.predicted} ({mistake.probability:.0%}), not {mistake.label or 'nothing'}: "
                f"{shorten(mistake.text, _SHOWN)}"
                for mistake in self.mistakes
            ]
        text = "\n\n".join(parts[:3]) + "".join(f"\n{line}" for line in parts[3:])
        return f"{text}\n\n{self.warning}" if self.warning else text


def evaluate_labelled(
    classifier: "Classifier", texts: Sequence[str], labels: Sequence[str | Collection[str]], *, progress: bool = False
) -> LabelledEvaluation:
    """Score a classifier: accuracy, F1, confusions, calibration, and its most confident mistakes.

    Args:
        classifier: The classifier.
        texts: The texts.
        labels: The label of each, or where texts have several the labels of each.
        progress: Whether to show a bar on standard error.

    Raises:
        RequestError: If there are no texts, or not as many labels.
        DataError: If a label was not met in training.
    """
    if not texts or len(texts) != len(labels):
        raise RequestError(f"evaluate: got {len(texts):,} texts and {len(labels):,} labels, expected as many, at least one")
    names, several = classifier.labels.names, classifier.labels.multiple
    gold = number_labels(classifier, labels)
    logits = classifier.scores(texts, progress=progress)
    probabilities = classifier.probabilities(logits)
    if several:
        predicted = probabilities > 0.5
        found: Scores | SeveralScores = score_several(predicted, gold, names)
        astray = predicted != gold.astype(bool)
        wrong, certain = astray.any(axis=-1), (np.maximum(probabilities, 1 - probabilities) * astray).max(axis=-1)
    else:
        predicted = probabilities.argmax(axis=-1)
        found, wrong, certain = score_labels(predicted, gold, names), predicted != gold, probabilities.max(axis=-1)
    order = [place for place in np.argsort(-certain, kind="stable").tolist() if wrong[place]][:_MISTAKES]
    majority = most_frequent(gold, names)
    warning = warn_of_one_answer(
        most_frequent(predicted, names),
        majority,
        texts=len(texts),
        num_labels=len(names),
        balanced=classifier.config.training.class_weights == "balanced",
        name="texts",
    )
    return LabelledEvaluation(
        majority=majority,
        warning=warning,
        scores=found,
        loss=negative_log_likelihood(logits / classifier.temperature, gold),
        calibration=calibration(probabilities, gold),
        mistakes=tuple(
            Mistake(
                texts[place], _joined(names, gold[place]), _said(names, probabilities[place], several), float(certain[place])
            )
            for place in order
        ),
    )


def number_labels(classifier: "Classifier", labels: Sequence[str | Collection[str]]) -> np.ndarray:
    """Labels as the model numbers them: (N,), or where texts have several (N,C) of ones and zeros.

    Raises:
        DataError: If one was not met in training.
    """
    names, several = classifier.labels.names, classifier.labels.multiple
    given = [[label] if isinstance(label, str) else list(label) for label in labels]
    gold = np.zeros((len(given), len(names)), np.int64)
    for row, own in enumerate(given):
        if not several and len(own) != 1:
            raise DataError(f"text {row + 1} has {len(own)} labels, but this model was trained on texts with one each")
        for label in own:
            gold[row, classifier.labels.number(label, f"text {row + 1}")] = 1
    return gold if several else gold.argmax(axis=-1)


def _joined(names: Sequence[str], gold: np.ndarray) -> str:
    return names[int(gold)] if gold.ndim == 0 else ", ".join(names[place] for place in np.flatnonzero(gold).tolist())


def _said(names: Sequence[str], probabilities: np.ndarray, several: bool) -> str:
    if several:
        return ", ".join(names[place] for place in np.flatnonzero(probabilities > 0.5).tolist()) or "nothing"
    return names[int(probabilities.argmax())]
