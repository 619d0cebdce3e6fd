"""A classification in words: its label, where the weight lies, what else it might have been."""

from collections.abc import Sequence

import numpy as np

from regard.record import AttentionRecord
from regard.viz.labels import label


def headline(record: AttentionRecord, between: str = " · ") -> str:
    """The label, with its probability where it has one and the true label where it is known."""
    probability = record.probabilities.get(record.target_text)
    chosen = label(record.target_text, 100) + ("" if probability is None else f"{between}{probability:.2f}")
    return chosen if record.reference is None else f"{chosen} (true label: {label(record.reference, 100)})"


def greatest(words: Sequence[str], weights: np.ndarray, count: int = 5) -> list[tuple[str, float]]:
    """The words with the most weight, the greatest first, and none without any."""
    order = np.argsort(-np.abs(weights), kind="stable")[:count]
    return [(words[index], float(weights[index])) for index in order if weights[index]]


def summary(record: AttentionRecord, words: Sequence[str], weights: np.ndarray) -> list[str]:
    """What the colours show, in words: for those who do not see them, too."""
    most = " · ".join(f"{word} {weight:.2g}" for word, weight in greatest(words, weights))
    lines = [f"Most weight: {most}."] if most else []
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    if ranked:
        shown = " · ".join(f"{label(name)} {probability:.2f}" for name, probability in ranked[:6])
        further = f" · and {len(ranked) - 6} labels with less" if len(ranked) > 6 else ""
        lines.append(f"Probabilities: {shown}{further}.")
    return lines
