"""Faithfulness: measures of whether a model's attention shows which words its predictions depend on."""

from regard.analysis.faithfulness.measure import compare_seeds, examine, measure_faithfulness
from regard.analysis.faithfulness.probe import Probe, WordedText
from regard.analysis.faithfulness.report import Erasure, Faithfulness, Seeds, Spread, Uniform
from regard.analysis.faithfulness.translation import measure_translation_faithfulness

__all__ = [
    "Erasure",
    "Faithfulness",
    "Probe",
    "Seeds",
    "Spread",
    "Uniform",
    "WordedText",
    "compare_seeds",
    "examine",
    "measure_faithfulness",
    "measure_translation_faithfulness",
]
