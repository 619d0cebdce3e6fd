"""Evaluation of predicted labels: accuracy, F1, confusions, calibration, and the most confident mistakes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.evaluation.baseline import Share, most_frequent, warn_of_one_answer
from regard.evaluation.calibration import Calibration, calibration, sigmoid, softmax
from regard.evaluation.classification import Scores, negative_log_likelihood, score_labels
from regard.evaluation.tables import shorten

_MISTAKES = 10
# Maximum width of the text of a mistake in `LabelledEvaluation.render`, in cells of a terminal.
_SHOWN = 160


@dataclass(frozen=True)
class Mistake:
    """A text with a wrong predicted label."""

    text: str
    label: str
    """The true label; several labels are separated by commas; empty if the text has none."""
    predicted: str
    probability: float
    """Confidence of the prediction; if a text can have several labels, the highest confidence among the wrong decisions."""


@dataclass(frozen=True)
class LabelledEvaluation:
    """Scores of predicted labels."""

    scores: Scores
    loss: float
    """Mean over the texts of −log p(true label or labels), in nats, with probabilities at the given temperature."""
    calibration: Calibration
    mistakes: tuple[Mistake, ...]
    """At most ten mistakes, the most confident ones first."""
    majority: Share
    """The most frequent true label or set of labels; its share is the accuracy of always predicting it."""
    answer: Share
    """The most frequent predicted label or set of labels."""
    warning: str = ""
    """Warning if the model gives almost all texts the same answer, see `warn_of_one_answer`; else empty."""

    @property
    def accuracy(self) -> float:
        """Accuracy, from 0 to 1."""
        return self.scores.accuracy

    @property
    def macro_f1(self) -> float:
        """Macro F1, from 0 to 1."""
        return self.scores.macro_f1

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            **self.scores.to_dict(),
            "loss": self.loss,
            "majority": {"label": self.majority.label, "share": self.majority.share},
            "warning": self.warning,
            "calibration": self.calibration.to_dict(),
            "mistakes": [asdict(mistake) for mistake in self.mistakes],
        }

    def render(self) -> str:
        """Return tables for a terminal."""
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


def evaluate_labels(
    logits: Float[np.ndarray, "N C"],
    gold: np.ndarray,
    texts: Sequence[str],
    names: Sequence[str],
    *,
    temperature: float = 1.0,
    balanced: bool = False,
) -> LabelledEvaluation:
    """Score predicted labels, given true ones: indices (N,), or ones and zeros (N,C) if a text may have several.

    The texts, if there are any, are for quotations of mistakes. For `balanced`, see `warn_of_one_answer`.
    """
    scaled = logits.astype(np.float64) / temperature
    if gold.ndim == 2:
        probabilities = sigmoid(scaled)
        predicted = probabilities > 0.5
        astray = predicted != gold.astype(bool)
        wrong, certain = astray.any(axis=-1), (np.maximum(probabilities, 1 - probabilities) * astray).max(axis=-1)
    else:
        probabilities = softmax(scaled)
        predicted = probabilities.argmax(axis=-1)
        wrong, certain = predicted != gold, probabilities.max(axis=-1)
    order = [place for place in np.argsort(-certain, kind="stable").tolist() if wrong[place]][:_MISTAKES] if texts else []
    majority, answer = most_frequent(gold, names), most_frequent(predicted, names)
    return LabelledEvaluation(
        scores=score_labels(predicted, gold, names),
        loss=negative_log_likelihood(logits / temperature, gold),
        calibration=calibration(probabilities, gold),
        mistakes=tuple(
            Mistake(texts[n], _joined(names, gold[n]), _joined(names, predicted[n]) or "nothing", float(certain[n]))
            for n in order
        ),
        majority=majority,
        answer=answer,
        warning=warn_of_one_answer(answer, majority, texts=len(gold), balanced=balanced, name="texts"),
    )


def _joined(names: Sequence[str], labels: np.ndarray) -> str:
    """Return the name of a label, given by its index, or the names of several, which are marked by ones."""
    return names[int(labels)] if labels.ndim == 0 else ", ".join(names[place] for place in np.flatnonzero(labels).tolist())
