"""Captioning: training models that write a text about an image, and prediction."""

from regard.task import Task, TaskWords, part
from regard.tasks.captioning.config import CaptioningConfig
from regard.tasks.files import TOKENIZER

_WORDS = TaskWords(
    predictor="a captioner",
    summary="Train a captioner on images and their texts.",
    examples="""\
  regard train captioning --preset digits --data.train photos/captions.csv --training.max_epochs 50
  regard train captioning --preset digits --data.train digits/train.csv --data.dev digits/dev.csv --out runs/digits
  regard train captioning --preset digits --data.train photos/captions.csv --data.height 128 --data.width 128 --data.cell 8
""",
    data="one table (.csv .tsv .json .jsonl .parquet) with the file of an image, relative to the table, and its text per row",
    missing="a table of images and texts",
    use=("regard caption DIR image.png", "regard look DIR image.png", "regard evaluate DIR test.csv", "regard serve DIR"),
)


class CaptioningTask(Task):
    """Captioning, as a task."""

    name = "captioning"
    config_class = CaptioningConfig
    words = _WORDS
    files = (frozenset({TOKENIZER}),)
    training = part("regard.tasks.captioning.train:CaptioningTraining")
    bundle_format = part("regard.tasks.captioning.data:CaptioningFormat")
    operations = part("regard.tasks.captioning.commands:OPERATIONS")
    predictor = part("regard.tasks.captioning.predict:Captioner", call=False)


TASK = CaptioningTask()
