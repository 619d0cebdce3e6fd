"""Training of language models."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError
from regard.machine import Machine, seed_step
from regard.models.seq2seq import Seq2Seq
from regard.task import LikelihoodScores, Start, Trainable, Training, Validator
from regard.tasks.distillation import TaughtWords, load_teachers, teach
from regard.tasks.language.bundle import LanguageBundle, LanguageFormat
from regard.tasks.language.config import LanguageConfig
from regard.tasks.objective import mean_nll, objective, own_model
from regard.text.batching import Batch, BucketBatchSampler, length_batches
from regard.text.corpora import TextCorpus
from regard.text.opening import check_file
from regard.text.plain import WHAT, TextData, find_unit, prepare_texts
from regard.text.tokenizers.tokenizer import Tokenizer
from regard.training.contexts import evaluating, fitting_into_memory
from regard.training.starting import check_vocabulary, custom_part

OwnLanguageModel = Seq2Seq | Callable[[int], Seq2Seq]


class TrainableLanguageModel(Trainable[LanguageConfig, Seq2Seq, Batch, LanguageBundle]):
    """A language model and its data. The loss is −log p, summed over the tokens of the texts and their end symbols."""

    unit: ClassVar[str] = "tokens"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "train_perplexity", "dev_nll", "dev_perplexity")
    taught: TaughtWords | None = None
    """The teachers' most probable words for each token; None without teachers."""
    data: TextData

    def sampler(self) -> BucketBatchSampler:
        """Return the sampler of batches of texts with similar lengths."""
        return BucketBatchSampler.of_run(self.config, self.data.train.lengths)

    def count(self, indices: np.ndarray) -> int:
        """Return the number of tokens, including end symbols."""
        return int(self.data.train.lengths[indices].sum())

    def batch(self, indices: np.ndarray) -> Batch:
        """Return a batch, with the teachers' words if there are teachers."""
        batch = self.data.train.batch(indices)
        return self.taught.add_to(batch) if self.taught else batch

    def loss(self, batch: Batch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the loss to differentiate, with label smoothing and teachers, and −log p of the gold tokens, to report."""
        soft = self.taught.targets(batch) if self.taught else None
        return objective(self.model, batch, label_smoothing=self.config.training.label_smoothing, soft=soft)

    def is_repeatable(self) -> bool:
        """Return True, because the loss depends only on the batch and the model; see `Trainable.is_repeatable`."""
        return True

    def validator(self, machine: Machine) -> "LanguageValidator | None":
        """Return an object that computes loss and perplexity on all dev texts; None if there are no dev texts."""
        if not len(self.data.dev):
            return None
        return LanguageValidator(self.data.dev, machine, batch_tokens=self.config.training.batch_tokens)

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe loss and perplexity."""
        return f"loss {scores['loss']:.3f}, perplexity {scores['perplexity']:,.2f}"

    def bundle(self, signature: dict[str, Any]) -> LanguageBundle:
        """Return the model, tokenizer, settings and report."""
        return LanguageBundle(
            config=self.config,
            model=self.model,
            tokenizer=self.data.tokenizer,
            signature=signature,
            report=self.data.report.to_dict(),
            custom=self.custom,
        )


@dataclass(frozen=True)
class LanguageScores(LikelihoodScores):
    """Scores of one validation; `nll` is the mean of −log p per token over all dev texts."""

    num_tokens: int
    """Number of tokens, including end symbols."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a bundle's signature."""
        return {"loss": self.nll, "perplexity": self.perplexity, "tokens": self.num_tokens}

    def to_row(self) -> dict[str, float]:
        """Return the columns of the logs."""
        return {"dev_nll": self.nll, "dev_perplexity": self.perplexity}

    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """Return a line with the scores, and no further lines."""
        return f"dev loss {self.nll:.3f} (perplexity {self.perplexity:,.2f})", []


class LanguageValidator(Validator[Seq2Seq]):
    """Validation of models on the dev texts."""

    def __init__(self, corpus: TextCorpus, machine: Machine, *, batch_tokens: int) -> None:
        self._corpus, self._machine = corpus, machine
        self._batches = length_batches(corpus.lengths, batch_tokens)

    @property
    def num_batches(self) -> int:
        """Number of batches of one validation, for progress bars."""
        return len(self._batches)

    def validate(self, model: Seq2Seq, *, after_batch: Callable[[], None] = lambda: None) -> LanguageScores:
        """Score a model on all dev texts; the model's mode (training or evaluation) is the same afterwards."""
        with evaluating(model):
            nll = mean_nll(model, self._corpus, self._batches, self._machine, after_batch)
        return LanguageScores(nll, int(self._corpus.lengths.sum()))


class LanguageTraining(Training[LanguageConfig, Tokenizer, LanguageBundle]):
    """The `Training` of language models."""

    def check(self, config: LanguageConfig, model: object, attention: object) -> None:
        """Check settings and objects; see `Training.check`."""
        if not config.data.train:
            raise ConfigError("data.train is empty; name a text file to learn from")
        if attention is not None:
            raise ConfigError(
                "a language model has an attention in every layer, and one object cannot replace all of them: build a "
                "regard.models.language.TransformerLanguageModel with your own layers, and give it as `model`"
            )

    def prepare(
        self,
        config: LanguageConfig,
        *,
        model: OwnLanguageModel | None,
        attention: None,
        start: Start[Tokenizer] | None,
        progress: bool,
    ) -> TrainableLanguageModel:
        """Read the texts and build the model.

        If there is a `start`, the model gets its vocabulary and weights; else, if there are teachers, their vocabulary.
        """
        learned = start.parts if start else None
        teachers = load_teachers(config.distillation, config.task, LanguageBundle)
        if teachers:
            config = replace(config, tokenizer=teachers.bundles[0].config.tokenizer)
            learned = learned or teachers.bundles[0].tokenizer
        if config.data.unit == "auto":  # so that the model reads other files in the same way
            unit = find_unit(check_file(config.data.train[0], WHAT), config.data.encoding)
            config = replace(config, data=replace(config.data, unit=unit))
        data = prepare_texts(config.data, config.tokenizer, seed=config.seed, progress=progress, learned=learned)
        config = replace(config, tokenizer=data.tokenizer_config)
        seed_step(config.seed, 0)
        built = _build_model(config, data.tokenizer, model)
        check_vocabulary(built, LanguageFormat().vocabulary(data.tokenizer), given=model is not None)
        if start:
            start.load_into(built)
        task = TrainableLanguageModel(config, data, built, custom_part(model, attention))
        if teachers:
            teach(task, teachers, data.train.lengths, progress=progress)
        return task


def _build_model(config: LanguageConfig, tokenizer: Tokenizer, model: OwnLanguageModel | None) -> Seq2Seq:
    vocabulary_size = tokenizer.size
    if model is None:
        with fitting_into_memory(f"a vocabulary of {vocabulary_size:,} symbols", "tokenizer.size"):
            return LanguageFormat().build_model(config, tokenizer)
    return own_model(
        model,
        (vocabulary_size,),
        kind="regard.models.seq2seq.Seq2Seq that ignores its source",
        sizes_name="the vocabulary's size",
        vocabulary="the vocabulary",
    )
