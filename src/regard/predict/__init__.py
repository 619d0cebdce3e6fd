"""Text in, text out, with its score and the attention behind it."""

from regard.predict.evaluate import Evaluation
from regard.predict.translation import Translation
from regard.predict.translator import Translator, load

__all__ = ["Evaluation", "Translation", "Translator", "load"]
