"""Checks of predictions and labels."""

import numpy as np

from regard.errors import ShapeError


def check_choices(caller: str, num_labels: int, **choices: np.ndarray) -> None:
    """Raise an error if arrays of label indices differ in length, are empty, or contain an invalid index."""
    _check_sizes(caller, num_labels, choices)
    for name, array in choices.items():
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ShapeError(
                f"{caller}: {name} is {array.dtype} {array.shape}, expected whole numbers (N,), a label for each text"
            )
        if array.min() < 0 or array.max() >= num_labels:
            raise ShapeError(
                f"{caller}: {name} has numbers from {array.min()} to {array.max()}, expected 0 to {num_labels - 1}: "
                f"there are {num_labels} labels"
            )


def check_indicators(caller: str, num_labels: int, **indicators: np.ndarray) -> None:
    """Raise an error if label indicators are not (N,C), differ in length, are empty, or have values other than 0 and 1."""
    _check_sizes(caller, num_labels, indicators)
    for name, array in indicators.items():
        if array.ndim != 2 or array.shape[1] != num_labels:
            raise ShapeError(f"{caller}: {name} is {array.shape}, expected (N,{num_labels}), a column for each label")
        if not np.isin(array, (0, 1)).all():
            raise ShapeError(f"{caller}: {name} has other values than 0 and 1, expected 1 if the text has the label, else 0")


def check_scores(caller: str, scores: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Raise an error if logits or probabilities (N,C) are not finite, or do not match the labels, (N,) or (N,C)."""
    if scores.ndim != 2 or not np.isfinite(scores).all():
        finite = "" if scores.ndim != 2 else ", not all of them finite"
        raise ShapeError(f"{caller}: {name} are {scores.shape}{finite}, expected finite numbers (N,C), a column for each label")
    if len(scores) != len(labels):
        raise ShapeError(f"{caller}: there are {len(scores)} {name} and {len(labels)} labels, expected the same number of each")
    if labels.ndim == 2:
        check_indicators(caller, scores.shape[1], labels=labels)
    else:
        check_choices(caller, scores.shape[1], labels=labels)


def _check_sizes(caller: str, num_labels: int, arrays: dict[str, np.ndarray]) -> None:
    if not num_labels:
        raise ShapeError(f"{caller}: names is empty, expected the name of each label")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ShapeError(f"{caller}: the numbers of texts differ ({found}), expected the same number of each")
    if 0 in lengths.values():
        raise ShapeError(f"{caller}: there are no texts, expected at least one")
