"""Analyses of trained models: comparison, faithfulness, capture, and descriptions of runs."""

from regard.analysis.alignments import evaluate_alignment
from regard.analysis.decisive import decisive_share
from regard.analysis.faithfulness import measure_faithfulness, measure_translation_faithfulness
from regard.tasks.classification.comparison import compare_classifiers
from regard.tasks.translation.comparison import compare_translators

__all__ = [
    "compare_classifiers",
    "compare_translators",
    "decisive_share",
    "evaluate_alignment",
    "measure_faithfulness",
    "measure_translation_faithfulness",
]
