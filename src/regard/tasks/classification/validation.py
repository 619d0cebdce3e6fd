"""Loss and scores of a classifier on labelled texts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.errors import RequestError
from regard.evaluation.baseline import Share, most_frequent
from regard.evaluation.calibration import calibration, fit_temperature, softmax
from regard.evaluation.classification import score_labels, score_several
from regard.machine import Machine
from regard.models.text_classifier import TextClassifier
from regard.task import LikelihoodScores, Validator
from regard.text.batching import length_batches
from regard.text.corpora import LabelledCorpus
from regard.text.labelled.labels import Labels
from regard.training.contexts import evaluating
from regard.training.data import to_device


def label_loss(
    logits: Float[Tensor, "B C"], label: Tensor, *, weight: Tensor | None = None, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return Σ −log p(label): from a softmax if each text has one label, or from a sigmoid per label if texts have several.

    Args:
        logits: Scores of the labels.
        label: Number of each text's label (B,), or if texts have several labels, ones and zeros (B,C).
        weight: Weight (C,) of each label's loss; None for equal weights.
        label_smoothing: ε of the smoothed target (1 − ε)·gold + ε/C; for several labels, (1 − ε)·gold + ε/2.
    """
    if label.ndim == 1:
        return functional.cross_entropy(logits, label, weight=weight, label_smoothing=label_smoothing, reduction="sum")
    target = label * (1 - label_smoothing) + label_smoothing / 2
    return functional.binary_cross_entropy_with_logits(logits, target, weight=weight, reduction="sum")


@dataclass(frozen=True)
class ClassificationScores(LikelihoodScores):
    """Scores of one validation; `nll` is the mean loss per text, at temperature 1."""

    accuracy: float
    """Accuracy from 0 to 1; if texts have several labels, the share of texts whose labels are all predicted correctly."""
    macro_f1: float
    """Mean F1 over the labels, from 0 to 1."""
    majority: Share
    """The most frequent label, or set of labels, of the dev texts; its share is the accuracy of always predicting it."""
    predicted: Share
    """The label, or set of labels, that the model predicts most often, and its share of the predictions."""
    num_texts: int
    temperature: float
    """Temperature that was fitted on the dev texts (`fit_temperature`); 1 if none was fitted."""
    calibration_error: float
    """Expected calibration error of the probabilities at this temperature, over 15 bins."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a bundle's signature."""
        return {
            "loss": self.nll,
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "majority_label": self.majority.label,
            "majority_share": self.majority.share,
            "second_share": self.majority.second,
            "predicted_label": self.predicted.label,
            "predicted_share": self.predicted.share,
            "texts": self.num_texts,
            "temperature": self.temperature,
            "calibration_error": self.calibration_error,
        }

    def to_row(self) -> dict[str, float]:
        """Return the columns of the logs."""
        return {"dev_nll": self.nll, "accuracy": self.accuracy, "macro_f1": self.macro_f1}

    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """Return a line with the scores, and no further lines."""
        return f"dev loss {self.nll:.3f}, accuracy {self.accuracy:.1%}, macro F1 {self.macro_f1:.3f}", []


class ClassificationValidator(Validator[TextClassifier]):
    """Validation of models on the dev texts."""

    def __init__(self, corpus: LabelledCorpus, labels: Labels, machine: Machine, *, batch_tokens: int, calibrate: bool) -> None:
        self._names = labels.names
        self._corpus, self._machine, self._calibrate = corpus, machine, calibrate
        self._batches = length_batches(corpus.lengths, batch_tokens)

    @property
    def num_batches(self) -> int:
        """Number of batches of one validation, for progress bars."""
        return len(self._batches)

    def validate(self, model: TextClassifier, *, after_batch: Callable[[], None] = lambda: None) -> ClassificationScores:
        """Score a model on all dev texts; the model's mode (training or evaluation) is the same afterwards."""
        logits, labels = [], []
        with evaluating(model):
            for indices in self._batches:
                batch = to_device(self._corpus.batch(indices), self._machine.device)
                with self._machine.autocast():
                    logits.append(model(batch.tokens, batch.mask).logits.float().cpu())
                labels.append(batch.label.cpu())
                after_batch()
        scores, gold = torch.cat(logits), torch.cat(labels)
        nll = float(label_loss(scores.double(), gold)) / len(gold)
        if not np.isfinite(nll):
            raise RequestError("the scores of a dev text are not finite")
        temperature = fit_temperature(scores.numpy(), gold.numpy()) if self._calibrate else 1.0
        array, right = scores.numpy(), gold.numpy()
        if right.ndim == 2:
            probabilities = torch.sigmoid(scores / temperature).numpy()
            predicted = probabilities > 0.5
            found: Any = score_several(predicted, right, self._names)
        else:
            probabilities = softmax(array / temperature)
            predicted = array.argmax(axis=-1)
            found = score_labels(predicted, right, self._names)
        return ClassificationScores(
            nll=nll,
            accuracy=found.accuracy,
            macro_f1=found.macro_f1,
            majority=most_frequent(right, self._names),
            predicted=most_frequent(predicted, self._names),
            num_texts=len(gold),
            temperature=temperature,
            calibration_error=calibration(probabilities, right).error,
        )
