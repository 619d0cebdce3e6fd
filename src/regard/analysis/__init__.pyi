"""The public names of the package, each with the module that defines it; `__init__.py` reads them from this file."""

from regard.tasks.classification.comparison import compare_classifiers as compare_classifiers
from regard.tasks.classification.decisive import decisive_share as decisive_share
from regard.tasks.classification.faithfulness import measure_faithfulness as measure_faithfulness
from regard.tasks.translation.alignments import evaluate_alignment as evaluate_alignment
from regard.tasks.translation.comparison import compare_translators as compare_translators
from regard.tasks.translation.faithfulness import measure_translation_faithfulness as measure_translation_faithfulness
