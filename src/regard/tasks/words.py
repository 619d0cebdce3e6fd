"""Training of models that predict words: translators and language models."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.bundle import StartFiles
from regard.config.fields import Role, facts_of
from regard.config.loading import check_config
from regard.errors import ConfigError
from regard.layers.consistency import Consistency
from regard.models.seq2seq import Seq2Seq
from regard.task import Bundle, Scores, Trainable, Training
from regard.tasks.distillation import TaughtWords, describe_teachers, hash_teachers, load_teachers, read_with_teachers
from regard.tasks.objective import objective
from regard.text.batching import Batch
from regard.text.cache import fingerprint_of
from regard.text.tokenizers.dropout import redraw_subwords


@dataclass(frozen=True)
class WordScores(Scores):
    """Results of one validation; `nll` is the mean of −log p per token over all dev examples."""

    @property
    def perplexity(self) -> float:
        """exp(nll); infinity if it overflows."""
        return math.exp(self.nll) if self.nll < 700 else math.inf

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "perplexity": self.perplexity}


class TrainableWords(Trainable):
    """A model that predicts words, and its data. The loss is −log p(target | source), summed over target tokens."""

    model: Seq2Seq
    scores_class = WordScores
    follows = ("consistency", "bpe_dropout")
    taught: TaughtWords | None = None
    """The teachers' most probable words for each target token; None without teachers."""

    @cached_property
    def redrawing(self) -> dict[str, Any]:
        """Further arguments of the corpus's `batch`, for BPE-dropout."""
        return redraw_subwords(self.config, self.data.tokenizers)

    def batch(self, indices: np.ndarray) -> Batch:
        """Return a batch, with the teachers' words if there are teachers."""
        if self.taught:
            return self.taught.add_to(self.data.train.batch(indices))
        return self.data.train.batch(indices, **self.redrawing)

    def loss(self, batch: Batch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the loss to differentiate, with label smoothing and teachers, and −log p of the gold words, to report."""
        return objective(self.model, batch, **self.options(batch, step, total_steps))

    def options(self, batch: Batch, step: int, total_steps: int) -> dict[str, Any]:
        """Return the options of `objective` in training; the arguments are those of `loss`."""
        soft = self.taught.targets(batch) if self.taught else None
        training = self.config.training
        return {
            "label_smoothing": training.label_smoothing,
            "soft": soft,
            "consistency": Consistency.of(training.consistency),
        }

    def nll(self, batch: Batch) -> Float[Tensor, ""]:
        """Return −log p of the gold words, if the decoder is fed gold words."""
        return objective(self.model, batch)[1]

    def is_repeatable(self) -> bool:
        """Return True, because the loss depends only on the batch and the model; see `Trainable.is_repeatable`."""
        return True


class WordTraining(Training):
    """The `Training` of models that predict words, which can learn from teachers."""

    model_class = Seq2Seq

    def __init__(self) -> None:
        self._teachers: list[Bundle] = []

    def use_teachers(self, config: Any, learned: Any) -> tuple[Any, Any]:
        """Load the teachers, and return the settings and the vocabulary to read the data with: the first teacher's, if any."""
        self._teachers = load_teachers(config)
        if not self._teachers:
            return config, learned
        if config.training.bpe_dropout:
            raise ConfigError(
                "training.bpe_dropout splits words in other ways than the teachers (distillation.teachers) read them; set only "
                "one of the two"
            )
        first = self._teachers[0]
        if any(teacher.model.copies for teacher in self._teachers):
            raise ConfigError(
                "a teacher (distillation.teachers) copies source words (model.copy), which a student cannot learn from "
                "probabilities of its vocabulary; name teachers without model.copy"
            )
        names = [name for name, facts in facts_of(type(config)).items() if Role.VOCABULARY in facts.roles]
        # The student shares the teachers' vocabulary, because their probabilities are those of its words.
        config = replace(config, **{name: getattr(first.config, name) for name in names})
        check_config(config)
        return config, learned or first.parts

    def sizes(self, parts: Any) -> tuple[int, ...]:
        return (parts.size,)

    def check_sizes(self, model: Seq2Seq, sizes: tuple[int, ...]) -> str:
        """Return a message if the model predicts another number of words than the last vocabulary has; else an empty text."""
        words = model.output_weight()[0].shape[0]
        return f"model predicts {words:,} words, but the vocabulary has {sizes[-1]:,}" if words != sizes[-1] else ""

    def begin(self, task: Trainable, start: StartFiles | None, *, progress: bool) -> None:
        """Copy the weights of a trained model, and let the teachers read the data."""
        super().begin(task, start, progress=progress)
        if not self._teachers:
            return
        assert isinstance(task, TrainableWords)
        settings, data = task.config.distillation, task.data
        if task.model.vocabulary != self._teachers[0].model.vocabulary:
            raise ConfigError(
                f"the teacher in '{settings.teachers[0]}' has another vocabulary than this run; a student must use the "
                "vocabulary of its teachers, so it cannot start from a model with another vocabulary"
            )
        task.taught = read_with_teachers(self._teachers, data.train, task.sizes(data.train), task.config, progress=progress)
        task.teachers, task.notes = settings.teachers, [describe_teachers(settings, task.taught)]
        # The fingerprint includes the teachers, so that a resumed run reports an error if they have changed.
        task.data = replace(data, fingerprint=fingerprint_of([data.fingerprint, *hash_teachers(self._teachers)]))
