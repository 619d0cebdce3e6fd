"""Sentences about a classification: its label, the words with the most weight, and the other labels."""

from collections.abc import Sequence

import numpy as np

from regard.plurals import counted
from regard.records import AttentionRecord
from regard.viz.labels import isolated, label, left_to_right
from regard.viz.numbers import decimals, fixed, greatest, probability

_MOST_LABELS = 6
# Largest relative difference of weights that are called the same: a mean in half precision has such differences.
_SAME = 1e-3


def headline(record: AttentionRecord, *, with_probability: bool) -> str:
    """Return the predicted label of a classification, with its probability if asked for, and the true label if known."""
    chosen, chance = label(record.target_text, 100), record.probabilities.get(record.target_text)
    if record.reference is None and (chance is None or not with_probability):
        return chosen  # a single label keeps its own writing direction
    parts = isolated(chosen) + (f" · {probability(chance)}" if chance is not None and with_probability else "")
    parts += "" if record.reference is None else f" (true label: {isolated(label(record.reference, 100))})"
    return left_to_right(parts)


def title(record: AttentionRecord, given: str | None) -> str:
    """Return the title of a picture: the given one, or by default the label of a classification with its probability."""
    if given is None and record.is_classification:
        return headline(record, with_probability=True)
    return label(given, 200) if given else ""


def most_weight(words: Sequence[str], weights: np.ndarray) -> str:
    """Return a sentence with the five words that have the most weight, or that all have the same."""
    places = decimals(greatest(weights))
    if len(words) > 1 and weights[0] > 0 and np.ptp(weights) <= _SAME * weights[0]:
        return f"All words have the same weight, {fixed(float(weights[0]), places)}."
    order = np.argsort(-np.abs(weights), kind="stable")[:5]
    pairs = [(isolated(words[index]), fixed(float(weights[index]), places)) for index in order]
    most = " · ".join(f"{word} {weight}" for word, weight in pairs if float(weight))
    return f"Most weight: {most}." if most else "No word has any weight." if words else ""


def other_labels(record: AttentionRecord) -> list[str]:
    """Return a sentence with the probabilities of the labels that were not chosen, if there are any."""
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    others = [(name, value) for name, value in ranked if name != record.target_text]
    if not others:
        return []
    shown = " · ".join(f"{isolated(label(name))} {probability(value)}" for name, value in others[:_MOST_LABELS])
    return [f"Other labels: {shown}{further_labels(len(others) - _MOST_LABELS, ' · ')}."]


def further_labels(number: int, before: str = "") -> str:
    """Return `before` and a clause such as "and 3 less probable labels", for labels that a list leaves out; empty for 0."""
    return f"{before}and {counted(number, 'less probable label')}" if number > 0 else ""
