"""Translation: training and prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.task import Task, TaskWords, part
from regard.tasks.files import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER
from regard.tasks.translation.config import TranslationConfig

if TYPE_CHECKING:
    from regard.tasks.translation.bundle import Tokenizers, TranslationBundle  # noqa: F401
    from regard.tasks.translation.predictor import Translator

_WORDS = TaskWords(
    predictor="a translator",
    predictors="translators",
    summary="Train a translator on sentence pairs.",
    examples="""\
  regard train translation --data.train deu.txt --data.source en --data.target de
  regard train translation --preset tutorial-luong-concat --data.train deu.txt --data.max_pairs 10000
  regard train translation --preset luong --data.train train.en,train.de --data.dev val.en,val.de --out runs/multi30k
  regard train translation --config mine.yaml --data.train pairs.csv --data.columns english,german --training.max_epochs 5
  regard train translation --from runs/deu --data.train medicine.tsv --out runs/medicine
""",
    data="one file of pairs (.tsv .txt .csv .json .jsonl .parquet, each also .gz), or two parallel text files",
    missing="a file of sentence pairs",
    use=('regard translate DIR "a sentence"', 'regard look DIR "a sentence"'),
)


class TranslationTask(Task[TranslationConfig, "Tokenizers", "TranslationBundle", "Translator"]):
    """Translation, as a task."""

    name = "translation"
    config_class = TranslationConfig
    words = _WORDS
    files = (frozenset({TOKENIZER}), frozenset({SOURCE_TOKENIZER, TARGET_TOKENIZER}))
    settings_table = part("regard.tasks.translation.choice:TranslationTable")
    training = part("regard.tasks.translation.training:TranslationTraining")
    bundle_format = part("regard.tasks.translation.bundle:TranslationFormat")
    operations = part("regard.tasks.translation.operations:OPERATIONS")

    def predictor(self, bundle: TranslationBundle) -> Translator:
        """Return a `Translator`."""
        from regard.tasks.translation.predictor import Translator

        return Translator(bundle)

    def ensemble(self, predictors: Sequence[Translator]) -> Translator:
        """Return a translator that averages the word probabilities of several translators."""
        from regard.tasks.translation.predictor import ensemble

        return ensemble(predictors)


TASK = TranslationTask()
