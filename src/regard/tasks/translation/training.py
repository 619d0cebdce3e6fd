"""Learning to translate."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.attention.base import Attention
from regard.bundle import Start, TranslationBundle
from regard.bundle.bundle import Custom, fingerprint_vocabulary
from regard.config import RecurrentConfig, TranslationConfig
from regard.errors import ConfigError
from regard.models.build import build_translator
from regard.models.seq2seq import Seq2Seq
from regard.tasks.objective import draw_gold, objective
from regard.tasks.translation.validation import TranslationValidator
from regard.text.batching import Batch, BucketBatchSampler
from regard.text.pairs.gold import guide
from regard.text.pairs.prepare import PreparedData, prepare
from regard.training.machine import Machine, seed_step
from regard.training.schedule import gold_probability
from regard.training.starting import check_vocabulary
from regard.training.task import Task, fitting_into_memory

Model = Seq2Seq | Callable[[int, int], Seq2Seq]


class TranslationTask(Task):
    """−log p(target | source), summed over target words, end symbols included."""

    unit: ClassVar[str] = "target tokens"
    columns: ClassVar[tuple[str, ...]] = (
        "gold_probability",
        "train_nll",
        "train_perplexity",
        "dev_nll",
        "dev_perplexity",
        "bleu",
        "chrf",
    )
    config: TranslationConfig
    data: PreparedData
    model: Seq2Seq

    @classmethod
    def prepare(
        cls,
        config: TranslationConfig,
        *,
        model: Model | None,
        attention: Attention | None,
        progress: bool,
        start: Start | None = None,
    ) -> "TranslationTask":
        """Read the data and build the model, with the vocabulary and the weights of `start` if there is one."""
        learned = start.tokenizers if start else None
        data = prepare(config.data, config.tokenizers, seed=config.seed, progress=progress, learned=learned)
        if config.data.alignments:
            data = guide(data, config.data)
        config = replace(config, tokenizers=data.tokenizers)
        seed_step(config.seed, 0)
        built = _build_model(config, data, model, attention)
        vocabulary = fingerprint_vocabulary((data.source_tokenizer, data.target_tokenizer))
        check_vocabulary(built, vocabulary, given=model is not None)
        if start:
            start.load_into(built)
        if config.data.alignments and "cross" not in built.sites:
            raise ConfigError("data.alignments trains attention, and this model has none over the source (no site `cross`)")
        custom: Custom = "model" if model is not None else "attention" if attention is not None else ""
        return cls(config, data, built, custom)

    def sampler(self) -> BucketBatchSampler:
        """Batches by the longer side of each pair."""
        training = self.config.training
        return BucketBatchSampler(
            self.data.train.source_lengths,
            self.data.train.target_lengths,
            batch_tokens=training.batch_tokens,
            batch_sentences=training.batch_sentences,
            seed=self.config.seed,
        )

    def count(self, indices: np.ndarray) -> int:
        """Target words."""
        return int(self.data.train.target_lengths[indices].sum())

    def loss(self, batch: Batch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """With label smoothing, and without."""
        training = self.config.training
        probability = gold_probability(training.teacher_forcing, step, total_steps)
        use_gold = draw_gold(batch.target_in, probability, training.teacher_forcing.unit)
        return objective(
            self.model,
            batch,
            use_gold=use_gold,
            label_smoothing=training.label_smoothing,
            alignment_weight=training.alignment_weight,
        )

    def validator(self, machine: Machine) -> TranslationValidator | None:
        """Loss of all dev pairs, BLEU and chrF of some."""
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
        """How often the gold word is fed."""
        return {"gold_probability": gold_probability(self.config.training.teacher_forcing, step, total_steps)}

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Loss, and BLEU and chrF if there are some."""
        how = scores["decoding"]
        bleu = f", BLEU {scores['bleu']:.1f} ({how}), chrF {scores['chrf']:.1f} ({how})" if scores["translated_pairs"] else ""
        return f"loss {scores['loss']:.3f}{bleu}"

    def bundle(self, signature: dict[str, Any]) -> TranslationBundle:
        """Model, tokenizers, settings and report."""
        return TranslationBundle(
            config=self.config,
            model=self.model,
            source_tokenizer=self.data.source_tokenizer,
            target_tokenizer=self.data.target_tokenizer,
            signature=signature,
            report=self.data.report.to_dict(),
            custom=self.custom,
        )

    def predictor(self, bundle: Any) -> Any:
        """A `Translator`."""
        from regard.tasks.translation.predictor import Translator

        return Translator(bundle)


def check_translation(config: TranslationConfig, model: object, attention: object) -> None:
    """Refuse what cannot be trained, before any work is done.

    Raises:
        ConfigError: If a setting or an object is wrong.
    """
    training = config.training
    if not config.data.train:
        raise ConfigError("data.train is empty; name a file of sentence pairs to learn from")
    if attention is not None and not isinstance(attention, Attention):
        if not isinstance(config.model, RecurrentConfig):
            raise ConfigError(f"an attention was given, but a model of kind '{config.model.kind}' takes none; give a model")
        sizes = f"query_size={config.model.decoder.hidden_size}, key_size={config.model.encoder.states_size}"
        raise ConfigError(
            f"attention is {attention!r:.80}, expected an object of a regard.attention.Attention class, made for the decoder's "
            f"queries and the encoder's keys: {sizes}"
        )
    if training.monitor != "loss" and not training.validation_pairs:
        raise ConfigError(
            f"training.monitor is '{training.monitor}', which is computed on training.validation_pairs pairs, and that is 0; "
            "set it to more, or monitor the loss"
        )


def _build_model(config: TranslationConfig, data: PreparedData, model: Model | None, attention: Attention | None) -> Seq2Seq:
    source_size, target_size = data.source_tokenizer.size, data.target_tokenizer.size
    if model is None:
        vocabularies = f"vocabularies of {source_size:,} and {target_size:,} symbols"
        with fitting_into_memory(vocabularies, "tokenizers.source.max_size and tokenizers.target.max_size"):
            return build_translator(config.model, source_size=source_size, target_size=target_size, attention=attention)
    made = model if isinstance(model, Seq2Seq) else model(source_size, target_size)
    if not isinstance(made, Seq2Seq):
        raise ConfigError(
            f"model is a {type(made).__name__}, expected a regard.models.seq2seq.Seq2Seq, or a function of the two "
            "vocabulary sizes that makes one"
        )
    words = made.output_weight()[0].shape[0]
    if words != target_size:
        raise ConfigError(
            f"model predicts {words:,} words, but the target vocabulary has {target_size:,}; give fit a function "
            "of the two vocabulary sizes that makes the model"
        )
    return made
