"""Text classification: training and prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.task import Operation, Task, TaskWords
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.names import FAITHFULNESS, LABELS
from regard.tasks.files import TOKENIZER

if TYPE_CHECKING:
    from regard.tasks.classification.bundle import ClassificationBundle, ClassificationFormat, ClassifierParts  # noqa: F401
    from regard.tasks.classification.choice import ClassificationTable
    from regard.tasks.classification.predictor import Classifier
    from regard.tasks.classification.training import ClassificationTraining

_WORDS = TaskWords(
    predictor="a classifier",
    predictors="classifiers",
    summary="Train a text classifier on labelled texts.",
    examples="""\
  regard train classification --data.train reviews.csv --data.text review --data.label sentiment
  regard train classification --preset bag --data.train reviews.tsv --out runs/reviews
  regard train classification --preset bilstm --data.train topics.jsonl --vectors glove.6B.100d.txt
  regard train classification --preset bag --data.train reviews.tsv --folds 10
  regard train classification --data.train positive.txt,negative.txt
  regard train classification --from runs/reviews --data.train tweets.csv --model.freeze embeddings
""",
    data="a file with a text and a label per line (.tsv .csv .json .jsonl .parquet, each also .gz), one text file for each "
    "label, a folder of such files, or a folder with a subfolder of texts for each label",
    missing="a file of labelled texts",
    use=('regard classify DIR "a text"', 'regard look DIR "a text"'),
    options=(
        ("data.text", "the text's column, by name or number"),
        ("data.label", "the label's column, by name or number"),
        ("vectors", "word vectors to start from (GloVe, fastText, word2vec as text): data.vectors"),
        ("folds", "number of folds of a cross-validation; mean and spread of the scores are reported"),
    ),
    short={"vectors": "data.vectors", "folds": "data.folds"},
)


class ClassificationTask(Task[ClassificationConfig, "ClassifierParts", "ClassificationBundle", "Classifier"]):
    """Classification of texts, as a task."""

    name = "classification"
    config_class = ClassificationConfig
    words = _WORDS
    files = (frozenset({TOKENIZER, LABELS}),)
    unsigned_files = (FAITHFULNESS,)

    @property
    def settings_table(self) -> ClassificationTable:
        """The table that chooses settings of classifiers."""
        from regard.tasks.classification.choice import ClassificationTable

        return ClassificationTable()

    @property
    def training(self) -> ClassificationTraining:
        """The part that prepares classifiers for training."""
        from regard.tasks.classification.training import ClassificationTraining

        return ClassificationTraining()

    @property
    def bundle_format(self) -> ClassificationFormat:
        """The part that saves and loads classifiers."""
        from regard.tasks.classification.bundle import ClassificationFormat

        return ClassificationFormat()

    @property
    def operations(self) -> Sequence[type[Operation]]:
        """What classifiers can do."""
        from regard.tasks.classification.operations import OPERATIONS

        return OPERATIONS

    def predictor(self, bundle: ClassificationBundle) -> Classifier:
        """Return a `Classifier`."""
        from regard.tasks.classification.predictor import Classifier

        return Classifier(bundle)


TASK = ClassificationTask()
