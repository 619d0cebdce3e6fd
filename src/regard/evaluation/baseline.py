"""The accuracy of always predicting the most frequent label, and a warning for models that do nearly this."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

_ALMOST_ALL = 0.99
_FEWEST_TEXTS = 10
# Minimum ratio of the frequencies of the two most frequent answers for labels to count as unbalanced.
_UNBALANCED = 3


@dataclass(frozen=True)
class Share:
    """The most frequent answer among some texts."""

    label: str
    """Name of the label; several names, separated by commas, for a set of labels; `nothing` for the empty set."""
    share: float
    """Share of the texts that have this answer, from 0 to 1."""
    second: float = 0.0
    """Share of the texts that have the second most frequent answer."""


def most_frequent(labels: Shaped[np.ndarray, "..."], names: Sequence[str]) -> Share:
    """Return the most frequent label of some texts, given by indices (N,), or set of labels, given by ones and zeros (N,C)."""
    if labels.ndim == 1:
        counts = np.bincount(labels, minlength=len(names))
        label = names[int(counts.argmax())]
    else:
        rows, counts = np.unique(labels.astype(bool), axis=0, return_counts=True)
        label = ", ".join(names[place] for place in np.flatnonzero(rows[int(counts.argmax())]).tolist()) or "nothing"
    # The 0 stands for a second answer if there is only one.
    second, first = np.sort([0, *counts])[-2:] / len(labels)
    return Share(label, float(first), float(second))


def warn_of_one_answer(predicted: Share, majority: Share, *, texts: int, balanced: bool, name: str) -> str:
    """Return a warning with advice if a model gives almost all texts the same answer; else an empty text.

    `balanced` says whether training weighted the labels by frequency, and `name` names the texts, such as `dev texts`.
    """
    # It is no fault if other answers are at least half as frequent among the predictions as among the right answers.
    few = predicted.share < _ALMOST_ALL or 1 - predicted.share >= (1 - majority.share) / 2
    if few or texts < _FEWEST_TEXTS:
        return ""
    if majority.share >= _UNBALANCED * majority.second and not balanced:
        advice = "the labels are unbalanced: train with training.class_weights balanced"
    else:
        advice = "train longer (training.max_epochs), change training.learning_rate, or try another preset (`regard presets`)"
    return (
        f"warning: the model answers '{predicted.label:.60}' for {predicted.share:.1%} of the {texts:,} {name}, whatever they "
        f"say; {advice}"
    )
