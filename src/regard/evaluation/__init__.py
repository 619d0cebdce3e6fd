"""Scores of predictions, calibration of their probabilities, and comparison of models."""

from regard.evaluation.calibration import Calibration, ReliabilityBin, calibration, fit_temperature, softmax
from regard.evaluation.classification import (
    LabelScores,
    Scores,
    macro_f1,
    negative_log_likelihood,
    score_labels,
)
from regard.evaluation.comparison import Bootstrap, McNemar, bootstrap_macro_f1, bootstrap_mean, mcnemar

__all__ = [
    "Bootstrap",
    "Calibration",
    "LabelScores",
    "McNemar",
    "ReliabilityBin",
    "Scores",
    "bootstrap_macro_f1",
    "bootstrap_mean",
    "calibration",
    "fit_temperature",
    "macro_f1",
    "mcnemar",
    "negative_log_likelihood",
    "score_labels",
    "softmax",
]
