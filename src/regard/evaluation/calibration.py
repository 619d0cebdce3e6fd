"""Whether a model that says 80% is right four times in five, and how to make it so."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from regard.errors import ShapeError
from regard.evaluation.checks import check_scores
from regard.evaluation.tables import table

_COLDEST, _HOTTEST = 0.05, 20.0
_HALVINGS = 50
_BAR = 20


@dataclass(frozen=True)
class ReliabilityBin:
    """The predictions whose confidence lies in (low, high]."""

    low: float
    high: float
    count: int
    confidence: float
    """Mean confidence of them; 0 without any."""
    accuracy: float
    """The part of them that is right; 0 without any."""


@dataclass(frozen=True)
class Calibration:
    """The distance between confidence and accuracy."""

    error: float
    """Expected calibration error, from 0 (honest) to 1."""
    bins: tuple[ReliabilityBin, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    def render(self) -> str:
        """Return the reliability diagram as text: a bar of accuracy for each bin, with a mark where the mean confidence is."""
        rows = [
            [
                f"{100 * one.low:3.0f}–{100 * one.high:.0f}%",
                f"{one.count:,}",
                f"{100 * one.confidence:.1f}%",
                f"{100 * one.accuracy:.1f}%",
                _bar(one),
            ]
            for one in self.bins
            if one.count
        ]
        header = ["confidence", "predictions", "mean", "right", f"{'right █  sure │':<{_BAR}}"]
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
    """Compare how sure predictions are with how often they are right.

        ECE = Σ_m |B_m| / n · |accuracy(B_m) − confidence(B_m)|

    over bins B_m = ((m−1)/M, m/M] of equal width. A prediction is the most probable label, and its confidence the
    probability. Where texts have several labels, each label is a decision of its own, whose confidence is max(p, 1 − p).

    Args:
        probabilities: From 0 to 1.
        labels: Numbers (N,), or for several labels whether a text has each (N,C).
        num_bins: M, ≥ 1.

    Raises:
        ShapeError: If the arrays do not fit.

    Reference:
        Guo et al. 2017, On Calibration of Modern Neural Networks, eq. 3.
    """
    if num_bins < 1:
        raise ShapeError(f"calibration: num_bins is {num_bins}, expected at least 1")
    check_scores("calibration", probabilities, labels, "probabilities")
    confidence, right = _decisions(probabilities.astype(np.float64), labels)
    edges = np.arange(num_bins + 1) / num_bins
    which = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, num_bins - 1)
    counts = np.bincount(which, minlength=num_bins)
    confidences = np.bincount(which, weights=confidence, minlength=num_bins) / np.maximum(counts, 1)
    accuracies = np.bincount(which, weights=right, minlength=num_bins) / np.maximum(counts, 1)
    return Calibration(
        error=float((counts / len(confidence) * abs(accuracies - confidences)).sum()),
        bins=tuple(
            ReliabilityBin(float(edges[m]), float(edges[m + 1]), int(counts[m]), float(confidences[m]), float(accuracies[m]))
            for m in range(num_bins)
        ),
    )


def fit_temperature(logits: Float[np.ndarray, "N C"], labels: Int[np.ndarray, " N"] | Shaped[np.ndarray, "N C"]) -> float:
    """Find the T for which p = softmax(z / T), or sigmoid(z / T), has the least negative log likelihood.

    The likelihood is convex in 1/T, so halving an interval by the sign of its slope finds the one minimum.

    Differs from the paper: the right label's target is 1 − 1/(n+2), the rest shared by the others, as Platt smooths (1999,
    eq. 7). Held-out texts that a model gets all right would else ask for T = 0. And 0.05 ≤ T ≤ 20.

    Args:
        logits: Of texts that the model was not trained on.
        labels: Numbers (N,), or for several labels whether a text has each (N,C).

    Returns:
        T; 1 when there are no texts, or nothing to choose between.

    Raises:
        ShapeError: If the arrays do not fit.

    Reference:
        Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2.
    """
    if not len(logits) or (logits.shape[1:] == (1,) and labels.ndim == 1):
        return 1.0
    check_scores("fit_temperature", logits, labels, "logits")
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
    wanted = float((target * scores).sum())
    low, high = np.log(_COLDEST), np.log(_HOTTEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # d NLL / d(1/T) = Σ E_p[z] − Σ E_target[z], which rises with 1/T
        if float((softmax(scores * np.exp(-middle)) * scores).sum()) > wanted:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def _decisions(probabilities: np.ndarray, labels: np.ndarray) -> tuple[Float[np.ndarray, " M"], Bool[np.ndarray, " M"]]:
    if labels.ndim == 2:
        said = probabilities.reshape(-1) > 0.5
        p = probabilities.reshape(-1)
        return np.where(said, p, 1 - p), said == labels.reshape(-1).astype(bool)
    return probabilities.max(1), probabilities.argmax(1) == labels


def _bar(one: ReliabilityBin) -> str:
    cells = ["█" if (i + 0.5) / _BAR <= one.accuracy else "·" for i in range(_BAR)]
    cells[min(int(one.confidence * _BAR), _BAR - 1)] = "│"
    return "".join(cells)
