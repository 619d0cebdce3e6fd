"""Text classification: training and prediction."""

from regard.task import Task, TaskWords, part
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.files import FAITHFULNESS, LABELS, TOKENIZER

_WORDS = TaskWords(
    predictor="a classifier",
    summary="Train a text classifier on labelled texts.",
    examples="""\
  regard train classification --data.train reviews.csv --data.text review --data.label sentiment
  regard train classification --preset bag --data.train reviews.tsv --out runs/reviews
  regard train classification --preset bilstm --data.train topics.jsonl --vectors glove.6B.100d.txt
  regard train classification --preset bag --data.train reviews.tsv --folds 10
  regard train classification --data.train positive.txt,negative.txt
  regard train classification --from runs/reviews --data.train tweets.csv --model.freeze embeddings
""",
    data="a file with a text and a label per line (.parquet, or .tsv .csv .json .jsonl, also .gz), one text file for each "
    "label, a folder of such files, or a folder with a subfolder of texts for each label",
    missing="a file of labelled texts",
    use=(
        *('regard classify DIR "a text"', 'regard look DIR "a text"', "regard evaluate DIR test.csv"),
        *("regard page DIR --to page.html", "regard serve DIR"),
    ),
    options=(
        ("data.text", "the text's column, by name or number"),
        ("data.label", "the label's column, by name or number"),
        ("vectors", "word vectors to start from (GloVe, fastText, word2vec as text): data.vectors"),
        ("folds", "number of folds of a cross-validation; mean and spread of the scores are reported"),
    ),
    short={"vectors": "data.vectors", "folds": "data.folds"},
)


class ClassificationTask(Task):
    """Classification of texts, as a task."""

    name = "classification"
    config_class = ClassificationConfig
    words = _WORDS
    files = (frozenset({TOKENIZER, LABELS}),)
    unsigned_files = (FAITHFULNESS,)
    settings_table = part("regard.tasks.classification.choice:ClassificationTable")
    training = part("regard.tasks.classification.train:ClassificationTraining")
    bundle_format = part("regard.tasks.classification.data:ClassificationFormat")
    operations = part("regard.tasks.classification.commands:OPERATIONS")
    predictor = part("regard.tasks.classification.predict:Classifier", call=False)


TASK = ClassificationTask()
