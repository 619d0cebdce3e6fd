"""Tagging: training models that give each word of a sentence a tag, and prediction."""

from regard.task import Task, TaskWords, part
from regard.tasks.files import LABELS, TOKENIZER
from regard.tasks.tagging.config import TaggingConfig

_WORDS = TaskWords(
    predictor="a tagger",
    summary="Train a tagger on sentences with a tag for each word, such as names of people and places.",
    examples="""\
  regard train tagging --data.train train.conll --data.dev dev.conll --out runs/names
  regard train tagging --data.train sentences.jsonl --data.columns tokens,ner_tags
  regard train tagging --data.train en_ewt-ud-train.conllu --data.columns 1,3
  regard train tagging --data.train train.conll --model.kind transformer --model.attention.kind multihead
""",
    data="files with one word and its tag per line and an empty line after each sentence (CoNLL), or with lists of words\n"
    "and tags (.jsonl .json .parquet)",
    missing="a file of tagged sentences",
    use=('regard tag DIR "a sentence"', 'regard look DIR "a sentence"', "regard evaluate DIR test.conll", "regard serve DIR"),
)


class TaggingTask(Task):
    """Tagging, as a task."""

    name = "tagging"
    config_class = TaggingConfig
    words = _WORDS
    files = (frozenset({TOKENIZER, LABELS}),)
    settings_table = part("regard.tasks.tagging.choice:TaggingTable")
    training = part("regard.tasks.tagging.train:TaggingTraining")
    bundle_format = part("regard.tasks.tagging.data:TaggingFormat")
    operations = part("regard.tasks.tagging.commands:OPERATIONS")
    predictor = part("regard.tasks.tagging.predict:Tagger", call=False)


TASK = TaggingTask()
