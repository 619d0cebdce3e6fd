"""Analyses of trained models: comparison, faithfulness, capture, and descriptions of runs."""

from regard.tasks.classification.comparison import compare_classifiers
from regard.tasks.classification.decisive import decisive_share
from regard.tasks.classification.faithfulness import measure_faithfulness
from regard.tasks.translation.alignments import evaluate_alignment
from regard.tasks.translation.comparison import compare_translators
from regard.tasks.translation.faithfulness import measure_translation_faithfulness

__all__ = [
    "compare_classifiers",
    "compare_translators",
    "decisive_share",
    "evaluate_alignment",
    "measure_faithfulness",
    "measure_translation_faithfulness",
]
