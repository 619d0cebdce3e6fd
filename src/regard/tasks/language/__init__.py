"""Language modelling: training and generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.task import Operation, Task, TaskWords
from regard.tasks.files import TOKENIZER
from regard.tasks.language.config import LanguageConfig

if TYPE_CHECKING:
    from regard.tasks.language.bundle import LanguageBundle, LanguageFormat
    from regard.tasks.language.choice import LanguageTable
    from regard.tasks.language.predictor import LanguageModel
    from regard.tasks.language.training import LanguageTraining
    from regard.text.tokenizers.tokenizer import Tokenizer  # noqa: F401

_WORDS = TaskWords(
    predictor="a language model",
    predictors="language models",
    summary="Train a language model on texts.",
    examples="""\
  regard train language --data.train stories.txt --preset language-tiny
  regard train language --data.train book.txt --data.unit paragraph --training.max_epochs 20
  regard train language --data.train train.txt --data.dev valid.txt --out runs/language
  regard train language --from runs/language --data.train letters.txt --out runs/letters
""",
    data="text files (each also .gz) with one text per line, or in paragraphs or blocks (data.unit)",
    missing="a text file",
    use=('regard generate DIR "the beginning"', 'regard look DIR "the beginning"'),
)


class LanguageTask(Task[LanguageConfig, "Tokenizer", "LanguageBundle", "LanguageModel"]):
    """Language modelling, as a task."""

    name = "language"
    config_class = LanguageConfig
    words = _WORDS
    files = (frozenset({TOKENIZER}),)

    @property
    def settings_table(self) -> LanguageTable:
        """The table that chooses settings of language models."""
        from regard.tasks.language.choice import LanguageTable

        return LanguageTable()

    @property
    def training(self) -> LanguageTraining:
        """The part that prepares language models for training."""
        from regard.tasks.language.training import LanguageTraining

        return LanguageTraining()

    @property
    def bundle_format(self) -> LanguageFormat:
        """The part that saves and loads language models."""
        from regard.tasks.language.bundle import LanguageFormat

        return LanguageFormat()

    @property
    def operations(self) -> Sequence[type[Operation]]:
        """What language models can do."""
        from regard.tasks.language.operations import OPERATIONS

        return OPERATIONS

    def predictor(self, bundle: LanguageBundle) -> LanguageModel:
        """Return a `LanguageModel`."""
        from regard.tasks.language.predictor import LanguageModel

        return LanguageModel(bundle)


TASK = LanguageTask()
