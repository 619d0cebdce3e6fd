"""Text in, text or label out, with its score and the attention behind it."""

from regard.predict.classification import Classification
from regard.predict.classifier import Classifier
from regard.predict.evaluate import Evaluation
from regard.predict.generation import Generation, ScoredText
from regard.predict.labelled_evaluation import LabelledEvaluation
from regard.predict.language_evaluation import LanguageEvaluation
from regard.predict.language_model import LanguageModel
from regard.predict.loading import load
from regard.predict.translation import ScoredPair, Translation
from regard.predict.translator import Translator, ensemble

__all__ = [
    "Classification",
    "Classifier",
    "Evaluation",
    "Generation",
    "LabelledEvaluation",
    "LanguageEvaluation",
    "LanguageModel",
    "ScoredPair",
    "ScoredText",
    "Translation",
    "Translator",
    "ensemble",
    "load",
]
