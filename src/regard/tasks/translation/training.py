"""Training of translators."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.attention.base import Attention
from regard.config import RecurrentConfig
from regard.config.loading import check_config
from regard.errors import ConfigError
from regard.evaluation.words import warn_of_zero
from regard.machine import Machine, seed_step
from regard.models.seq2seq import Seq2Seq
from regard.task import Start, Trainable, Training
from regard.tasks.distillation import TaughtWords, load_teachers, teach
from regard.tasks.objective import draw_gold, objective, own_model
from regard.tasks.translation.bundle import Tokenizers, TranslationBundle, TranslationFormat
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.metrics import suitable_monitor
from regard.tasks.translation.validation import TranslationValidator
from regard.text.batching import Batch, BucketBatchSampler
from regard.text.pairs.gold import add_gold_alignments
from regard.text.pairs.prepare import PreparedData, prepare
from regard.training.contexts import fitting_into_memory
from regard.training.schedule import gold_probability
from regard.training.starting import check_vocabulary, custom_part

Model = Seq2Seq | Callable[[int, int], Seq2Seq]


class TrainableTranslator(Trainable[TranslationConfig, Seq2Seq, Batch, TranslationBundle]):
    """A translator and its data. The loss is −log p(target | source), summed over target tokens and end symbols."""

    unit: ClassVar[str] = "target tokens"
    taught: TaughtWords | None = None
    """The teachers' most probable words for each target token; None without teachers."""
    _attention_loss: tuple[Tensor | float, Tensor | float] | None = None
    """Sum over words of the loss that the attention adds, and the number of these words, since the last row of the logs, in
    this process; None if the attention added no loss.
    """
    columns: ClassVar[tuple[str, ...]] = (
        "gold_probability",
        "attention_loss",
        "train_nll",
        "train_perplexity",
        "dev_nll",
        "dev_perplexity",
        "bleu",
        "chrf",
        "exact_match",
    )
    data: PreparedData

    def sampler(self) -> BucketBatchSampler:
        """Return the sampler of batches of pairs, grouped by the length of the longer side."""
        return BucketBatchSampler.of_run(self.config, self.data.train.source_lengths, self.data.train.target_lengths)

    def count(self, indices: np.ndarray) -> int:
        """Return the number of target tokens, including end symbols."""
        return int(self.data.train.target_lengths[indices].sum())

    def batch(self, indices: np.ndarray) -> Batch:
        """Return a batch, with the teachers' words if there are teachers."""
        batch = self.data.train.batch(indices)
        return self.taught.add_to(batch) if self.taught else batch

    def loss(self, batch: Batch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the loss to differentiate, with label smoothing, teachers and other parts, and −log p of the gold words."""
        training = self.config.training
        probability = gold_probability(training.teacher_forcing, step, total_steps)
        use_gold = draw_gold(batch.target_in, probability, training.teacher_forcing.unit)
        return objective(
            self.model,
            batch,
            use_gold=use_gold,
            label_smoothing=training.label_smoothing,
            soft=self.taught.targets(batch) if self.taught else None,
            alignment_weight=training.alignment_weight,
            attention_loss_weight=training.attention_loss_weight,
            report=self._add_attention_loss,
        )

    def is_repeatable(self) -> bool:
        """Return True if the decoder is always fed gold words, and neither gold alignments nor the attention add a loss."""
        forcing = self.config.training.teacher_forcing
        plain = forcing.start >= 1 and forcing.end >= 1 and not self.config.data.alignments
        return plain and not any(module.has_loss for module in self.model.modules() if isinstance(module, Attention))

    def _add_attention_loss(self, total: Tensor, count: Tensor) -> None:
        """Add the attention loss and the number of words of a batch to the sums for the next row of the logs.

        The sums stay on the device, so that the CPU does not wait for a GPU.
        """
        before = self._attention_loss or (0.0, 0.0)
        self._attention_loss = before[0] + total, before[1] + count

    def validator(self, machine: Machine) -> TranslationValidator | None:
        """Return an object that computes the loss on all dev pairs, and BLEU and chrF on some; None without dev pairs."""
        if not len(self.data.dev):
            return None
        return TranslationValidator(
            self.data.dev,
            self.data.target_tokenizer,
            self.config.decoding,
            machine,
            num_translated=self.config.training.validation_pairs,
            batch_tokens=self.config.training.batch_tokens,
        )

    def row(self, step: int, total_steps: int) -> dict[str, float]:
        """Return the probability of feeding the gold word, and the mean loss of the attention since the last row, if any."""
        row = {"gold_probability": gold_probability(self.config.training.teacher_forcing, step, total_steps)}
        if self._attention_loss is not None:
            total, count = self._attention_loss
            row["attention_loss"] = float(total / count)
            self._attention_loss = None
        return row

    def log_state(self) -> dict[str, float]:
        """Return the sums of which the next row of the logs shows the means; see `Trainable.log_state`."""
        if self._attention_loss is None:
            return {}
        total, count = map(float, self._attention_loss)
        return {"attention_loss": total, "attention_loss_words": count}

    def load_log_state(self, state: Mapping[str, float]) -> None:
        """Restore the sums; see `Trainable.load_log_state`."""
        self._attention_loss = (state["attention_loss"], state["attention_loss_words"]) if state else None

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe the loss, and BLEU, chrF and exact match if they were computed."""
        how = scores["decoding"]
        bleu = f", BLEU {scores['bleu']:.1f} ({how}), chrF {scores['chrf']:.1f} ({how})" if scores["translated_pairs"] else ""
        exact = f", exact {scores['exact_match']:.1%}" if bleu and "exact_match" in scores else ""
        return f"loss {scores['loss']:.3f}{bleu}{exact}"

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning if BLEU can't compare models on these pairs; else an empty text."""
        return warn_of_zero(scores["bleu"], scores["chrf"])

    def bundle(self, signature: dict[str, Any]) -> TranslationBundle:
        """Return the model, tokenizers, settings and report."""
        return TranslationBundle(
            config=self.config,
            model=self.model,
            source_tokenizer=self.data.source_tokenizer,
            target_tokenizer=self.data.target_tokenizer,
            signature=signature,
            report=self.data.report.to_dict(),
            custom=self.custom,
        )


class TranslationTraining(Training[TranslationConfig, Tokenizers, TranslationBundle]):
    """The `Training` of translators."""

    def check(self, config: TranslationConfig, model: object, attention: object) -> None:
        """Check settings and objects; see `Training.check`."""
        training = config.training
        if not config.data.train:
            raise ConfigError("data.train is empty; name a file of sentence pairs to learn from")
        if attention is not None and not isinstance(attention, Attention):
            if not isinstance(config.model, RecurrentConfig):
                raise ConfigError(
                    f"an attention was given, but a model of kind '{config.model.kind}' takes no attention object; build a "
                    "model with your own attention, and give it to fit as `model`"
                )
            sizes = f"query_size={config.model.decoder.hidden_size}, key_size={config.model.encoder.states_size}"
            raise ConfigError(
                f"attention is {attention!r:.80}, expected an object of a regard.attention.Attention class, made for the "
                f"decoder's queries and the encoder's keys: {sizes}"
            )
        if training.monitor not in ("auto", "loss") and not training.validation_pairs:
            raise ConfigError(
                f"training.monitor is '{training.monitor}', but training.validation_pairs is 0, so no pair is scored; increase "
                "training.validation_pairs, or set training.monitor to 'loss'"
            )

    def prepare(
        self,
        config: TranslationConfig,
        *,
        model: Model | None,
        attention: Attention | None,
        start: Start[Tokenizers] | None,
        progress: bool,
    ) -> TrainableTranslator:
        """Read the pairs and build the model.

        If there is a `start`, the model gets its vocabulary and weights; else, if there are teachers, their vocabulary.
        """
        learned = (start.parts.source, start.parts.target) if start else None
        teachers = load_teachers(config.distillation, config.task, TranslationBundle)
        if teachers:
            taught_by = teachers.bundles[0]
            config = replace(config, tokenizers=taught_by.config.tokenizers)
            check_config(config)
            learned = learned or (taught_by.source_tokenizer, taught_by.target_tokenizer)
        data = prepare(config.data, config.tokenizers, seed=config.seed, progress=progress, learned=learned)
        if config.data.alignments:
            data = add_gold_alignments(data, config.data)
        training = config.training
        if training.monitor == "auto" and len(data.dev):
            some = range(0, len(data.dev) if training.validation_pairs else 0, 1 + len(data.dev) // 1000)
            references = data.dev.texts(some)[1]
            training = replace(training, monitor=suitable_monitor(data.target_tokenizer, references))
        config = replace(config, tokenizers=data.tokenizers, training=training)
        seed_step(config.seed, 0)
        tokenizers = Tokenizers(data.source_tokenizer, data.target_tokenizer)
        built = _build_model(config, tokenizers, model, attention)
        check_vocabulary(built, TranslationFormat().vocabulary(tokenizers), given=model is not None)
        if start:
            start.load_into(built)
        if config.data.alignments and "cross" not in built.sites:
            raise ConfigError("data.alignments trains attention, but this model has none over the source (no site `cross`)")
        task = TrainableTranslator(config, data, built, custom_part(model, attention))
        if teachers:
            teach(task, teachers, data.train.target_lengths, progress=progress)
        return task


def _build_model(
    config: TranslationConfig, tokenizers: Tokenizers, model: Model | None, attention: Attention | None
) -> Seq2Seq:
    source_size, target_size = tokenizers.source.size, tokenizers.target.size
    if model is None:
        vocabularies = f"vocabularies of {source_size:,} and {target_size:,} symbols"
        if tokenizers.source is tokenizers.target:
            vocabularies = f"a joint vocabulary of {source_size:,} symbols"
        with fitting_into_memory(vocabularies, "tokenizers.source.max_size and tokenizers.target.max_size"):
            return TranslationFormat().build_model(config, tokenizers, attention)
    return own_model(
        model,
        (source_size, target_size),
        kind="regard.models.seq2seq.Seq2Seq",
        sizes_name="the two vocabulary sizes",
        vocabulary="the target vocabulary",
    )
