"""Translation: training and prediction."""

from regard.task import Task, TaskWords, part
from regard.tasks.files import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER
from regard.tasks.translation.config import TranslationConfig

_WORDS = TaskWords(
    predictor="a translator",
    summary="Train a translator on sentence pairs.",
    examples="""\
  regard train translation --data.train deu.txt --data.source en --data.target de
  regard train translation --preset tutorial-luong-concat --data.train deu.txt --data.max_pairs 10000
  regard train translation --preset luong --data.train train.en,train.de --data.dev val.en,val.de --out runs/multi30k
  regard train translation --config mine.yaml --data.train pairs.csv --data.columns english,german --training.max_epochs 5
  regard train translation --from runs/deu --data.train medicine.tsv --out runs/medicine
""",
    data="one file of pairs (.parquet, or .tsv .txt .csv .json .jsonl, also .gz), or two parallel text files",
    missing="a file of sentence pairs",
    use=(
        *('regard translate DIR "a sentence"', 'regard look DIR "a sentence"', "regard evaluate DIR test.tsv"),
        *("regard page DIR --to page.html", "regard serve DIR"),
    ),
)


class TranslationTask(Task):
    """Translation, as a task."""

    name = "translation"
    config_class = TranslationConfig
    words = _WORDS
    files = (frozenset({TOKENIZER}), frozenset({SOURCE_TOKENIZER, TARGET_TOKENIZER}))
    settings_table = part("regard.tasks.translation.choice:TranslationTable")
    training = part("regard.tasks.translation.train:TranslationTraining")
    bundle_format = part("regard.tasks.translation.data:TranslationFormat")
    operations = part("regard.tasks.translation.commands:OPERATIONS")
    predictor = part("regard.tasks.translation.predict:Translator", call=False)
    ensemble = part("regard.tasks.translation.ensemble:ensemble")


TASK = TranslationTask()
