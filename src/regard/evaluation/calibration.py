"""Calibration: a model that says 80% should be right in 80% of the cases. Measure this, and fit a temperature to improve it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from regard.evaluation.classification import check_labels
from regard.evaluation.tables import Result, table

_COLDEST, _HOTTEST = 0.05, 20.0
_HALVINGS = 50
_BAR = 20


@dataclass(frozen=True)
class ReliabilityBin:
    """A bin of the predictions whose confidence is in (low, high]."""

    low: float
    high: float
    count: int
    confidence: float
    """Mean confidence of these predictions; 0 if the bin is empty."""
    accuracy: float
    """Share of correct predictions; 0 if the bin is empty."""


@dataclass(frozen=True)
class Calibration(Result):
    """The distance between confidence and accuracy."""

    error: float
    """Expected calibration error, from 0 (perfect) to 1."""
    bins: tuple[ReliabilityBin, ...]

    def render(self) -> str:
        """Return the reliability diagram as text: the accuracy of each bin as a bar, with a mark at the mean confidence."""
        rows = []
        for one in filter(lambda one: one.count, self.bins):
            shares = [f"{100 * one.confidence:.1f}%", f"{100 * one.accuracy:.1f}%"]
            cells = ["█" if (i + 0.5) / _BAR <= one.accuracy else "·" for i in range(_BAR)]
            cells[min(int(one.confidence * _BAR), _BAR - 1)] = "│"
            rows.append([f"{100 * one.low:3.0f}–{100 * one.high:.0f}%", f"{one.count:,}", *shares, "".join(cells)])
        header = ["confidence", "predictions", "mean", "right", f"{'right █  mean │':<{_BAR}}"]
        return f"expected calibration error   {self.error:.4f}\n\n{table(header, rows)}"


def softmax(logits: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "N C"]:
    """Return exp(z) / Σ exp(z) over the labels."""
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def sigmoid(logits: Float[np.ndarray, "*N"]) -> Float[np.ndarray, "*N"]:
    """Return 1 / (1 + exp(−z)), without overflow."""
    return 0.5 * (1 + np.tanh(logits / 2))


def calibration(
    probabilities: Float[np.ndarray, "N C"],
    labels: Int[np.ndarray, " N"] | Shaped[np.ndarray, "N C"],
    *,
    num_bins: int = 15,
) -> Calibration:
    """Compare the confidence of predictions with their accuracy.

        ECE = Σ_m |B_m| / n · |accuracy(B_m) − confidence(B_m)|

    where the n predictions are divided among M bins by their confidence, which is in ((m−1)/M, m/M] for bin B_m. A prediction
    is the most probable label of a text, and its confidence is the probability of this label. If a text can have several
    labels, each of the C labels is a separate prediction, yes or no, with confidence max(p, 1 − p).

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, eq. 3.
    """
    check_labels("calibration", probabilities.shape[1], labels=labels)
    scores = probabilities.astype(np.float64)
    if labels.ndim == 2:
        confidence, right = np.maximum(scores, 1 - scores).ravel(), ((scores > 0.5) == labels.astype(bool)).ravel()
    else:
        confidence, right = scores.max(1), scores.argmax(1) == labels
    edges = np.arange(num_bins + 1) / num_bins
    which = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, num_bins - 1)
    counts = np.bincount(which, minlength=num_bins)
    means = [np.bincount(which, weights=values, minlength=num_bins) / np.maximum(counts, 1) for values in (confidence, right)]
    columns = (column.tolist() for column in (edges[:-1], edges[1:], counts, *means))
    return Calibration(
        error=float((counts / len(confidence) * abs(means[1] - means[0])).sum()),
        bins=tuple(ReliabilityBin(*row) for row in zip(*columns, strict=True)),
    )


def fit_temperature(logits: Float[np.ndarray, "N C"], labels: Int[np.ndarray, " N"] | Shaped[np.ndarray, "N C"]) -> float:
    """Return the T that minimises the negative log likelihood of p = softmax(z / T) or sigmoid(z / T) for logits z.

    The sigmoid is for texts that can have several labels. The loss is convex in 1/T, so bisection by the sign of its slope
    finds the only minimum. Differs from the paper: for n texts, the target of the correct label is 1 − 1/(n+2) instead of 1,
    and the other labels share the rest (Platt 1999, eq. 7; for several labels, n counts the pairs of a text and a label).
    Without this smoothing, T would be 0 if the model labels all held-out texts correctly. T is limited to 0.05 to 20, and is 1
    if it has no effect, because there are no texts, there is only one label, or the logits of each text are all equal.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2.
    """
    if not len(logits) or (logits.shape[1:] == (1,) and labels.ndim == 1):
        return 1.0
    check_labels("fit_temperature", logits.shape[1], labels=labels)
    scores = logits.astype(np.float64)
    binary = labels.ndim == 2
    if binary:
        # A sigmoid is a softmax over z and 0.
        scores = np.stack([np.zeros(scores.size), scores.reshape(-1)], 1)
        labels = labels.reshape(-1).astype(np.int64)
    scores = scores - scores.mean(1, keepdims=True)
    if not scores.any():
        return 1.0
    rest = 1 / (len(scores) + 2)
    target = np.full(scores.shape, rest / (scores.shape[1] - 1))
    np.put_along_axis(target, labels[:, None].astype(np.int64), 1 - rest, 1)
    target_mean = float((target * scores).sum())
    # Halving the interval of log T gives the same relative accuracy everywhere.
    low, high = np.log(_COLDEST), np.log(_HOTTEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # d NLL / d(1/T) = Σ E_p[z] − Σ E_target[z], which rises with 1/T
        if float((softmax(scores * np.exp(-middle)) * scores).sum()) > target_mean:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))
