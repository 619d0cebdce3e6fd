"""Language modelling: training and generation."""

from regard.task import Task, TaskWords, part
from regard.tasks.files import TOKENIZER
from regard.tasks.language.config import LanguageConfig

_WORDS = TaskWords(
    predictor="a language model",
    summary="Train a language model on texts.",
    examples="""\
  regard train language --data.train stories.txt --preset language-tiny
  regard train language --data.train book.txt --data.unit paragraph --training.max_epochs 20
  regard train language --data.train train.txt --data.dev valid.txt --out runs/language
  regard train language --from runs/language --data.train letters.txt --out runs/letters
""",
    data="text files (each also .gz) with one text per line, or in paragraphs or blocks (data.unit)",
    missing="a text file",
    use=(
        *('regard generate DIR "the beginning"', 'regard look DIR "the beginning"', "regard evaluate DIR test.txt"),
        *("regard page DIR --to page.html", "regard serve DIR"),
    ),
)


class LanguageTask(Task):
    """Language modelling, as a task."""

    name = "language"
    config_class = LanguageConfig
    words = _WORDS
    files = (frozenset({TOKENIZER}),)
    settings_table = part("regard.tasks.language.choice:LanguageTable")
    training = part("regard.tasks.language.train:LanguageTraining")
    bundle_format = part("regard.tasks.language.data:LanguageFormat")
    operations = part("regard.tasks.language.commands:OPERATIONS")
    predictor = part("regard.tasks.language.predict:LanguageModel", call=False)


TASK = LanguageTask()
