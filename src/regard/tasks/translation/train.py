"""Training of translators, and their validation on pairs that they are not trained on."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from regard.attention.base import Attention
from regard.config import PretrainedSourceConfig, TokenizersConfig
from regard.config.model import RecurrentSettings
from regard.decoding import Hypothesis, greedy
from regard.errors import ConfigError, DataError
from regard.evaluation.words import quality, warn_of_zero
from regard.machine import Machine, in_parts, prediction_tokens, to_device
from regard.models.seq2seq import Seq2Seq
from regard.plurals import counted
from regard.task import Validator
from regard.tasks.encoders import read_encoder_of
from regard.tasks.objective import draw_gold
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.metrics import suitable_metrics, suitable_monitor
from regard.tasks.words import TrainableWords, WordScores, WordTraining
from regard.text.batching import Batch, BucketBatchSampler, length_batches
from regard.text.copying import Copier
from regard.text.corpora import EncodedCorpus
from regard.text.pairs.gold import add_gold_alignments
from regard.text.pairs.prepare import PairSchema
from regard.text.pairs.readers import name_languages
from regard.text.preparation import Prepared, prepare_data
from regard.text.split import spread
from regard.text.tokenizers.tokenizer import Tokenizer
from regard.training.schedule import gold_probability

_SAMPLES = 3
# Number of pairs that are read at once to find a word to copy.
_CHECKED_PAIRS = 256
# Name of the search that translates the dev pairs, shown with BLEU and chrF.
_DECODING = "greedy"
# Names of the sum over words of the loss that the attention adds, and of the number of these words, in `log_sums`.
_ATTENTION_SUMS = "attention_loss", "attention_loss_words"


@dataclass(frozen=True)
class Sample:
    """One validation pair with the model's translation."""

    source: str
    prediction: str
    reference: str


@dataclass(frozen=True, kw_only=True)
class TranslationScores(WordScores):
    """Scores of one validation; `nll` is the mean of −log p per target token over all dev pairs."""

    bleu: float
    """BLEU of greedy translations, from 0 to 100."""
    chrf: float
    """chrF of greedy translations, from 0 to 100."""
    exact_match: float
    """Share of greedy translations that equal their references, from 0 to 1."""
    bleu_signature: str
    """sacrebleu's signature of `bleu`, which describes how the score was computed; empty if nothing was translated."""
    chrf_signature: str
    pairs: int
    """Number of pairs over which `nll` was computed."""
    translated_pairs: int
    """Number of pairs that were translated for `bleu`, `chrf` and `exact_match`."""
    samples: tuple[Sample, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        plain = super().to_dict()
        del plain["samples"]
        return {**plain, "decoding": _DECODING}

    def lines(self, *, first: bool) -> list[str]:
        """Return the signatures of the scores, once, and a few translations."""
        lines = []
        if first and self.translated_pairs:
            how = f"BLEU {self.bleu_signature}, chrF {self.chrf_signature}"
            lines.append(f"  signatures for {counted(self.translated_pairs, 'pair')}: {how}")
        for sample in self.samples:
            lines += ["", *(f"  {name:<10}  {text}" for name, text in vars(sample).items())]
        return [*lines, ""] if self.samples else lines


class TranslationValidator(Validator):
    """Validation of models on the dev pairs: the loss on all pairs, and the quality of greedy translations of some.

    The beam size, the length reward, the precision and `replace_unknown` of the run's search are ignored.
    """

    task: "TrainableTranslator"

    def __init__(self, task: "TrainableTranslator", machine: Machine) -> None:
        super().__init__(task, machine)
        corpus, decoding = task.data.dev, task.config.decoding
        self._decoding = replace(decoding, length_reward=0.0)
        self._chosen = spread(len(corpus), task.config.training.validation_pairs)
        groups = length_batches(corpus.source_lengths[self._chosen], prediction_tokens(machine.device, decoding.batch_tokens))
        self._translated = [self._chosen[places] for places in groups]
        self._sources, self._references = corpus.texts(self._chosen)
        self._metrics = suitable_metrics(task.target_tokenizer, self._references)
        self._source_of = dict(zip(self._chosen, self._sources, strict=True))

    @property
    def num_batches(self) -> int:
        return super().num_batches + len(self._translated)

    def score(self, nll: float, after_batch: Callable[[], None]) -> TranslationScores:
        """Translate the chosen pairs, and return the scores; if the loss is not finite, nothing is translated.

        Raises:
            RequestError: If the model's scores for a next word are not finite.
        """
        predictions = self._translate(after_batch) if math.isfinite(nll) else []
        count = len(predictions)
        shown = [number * count // min(_SAMPLES, count) for number in range(min(_SAMPLES, count))]
        measured = quality(predictions, self._references[:count], self._metrics)
        del measured["length_ratio"]
        return TranslationScores(
            nll=nll,
            pairs=len(self.corpus),
            translated_pairs=count,
            samples=tuple(Sample(self._sources[place], predictions[place], self._references[place]) for place in shown),
            **measured,
        )

    def _translate(self, after_batch: Callable[[], None]) -> list[str]:
        texts: dict[int, str] = {}
        model: Any = self.task.model

        def translate(indices: np.ndarray) -> list[Hypothesis]:
            batch = to_device(self.corpus.batch(indices), self.machine.device)
            with self.machine.autocast():
                return greedy(model, batch.source, batch.source_mask, self._decoding)

        for indices in self._translated:
            for index, hypothesis in zip(indices, chain.from_iterable(in_parts(translate, indices)), strict=True):
                copier = getattr(self.corpus, "copier", None)
                copied = copier.copied(hypothesis.tokens, self._source_of[index]) if copier else {}
                texts[int(index)] = self.task.target_tokenizer.decode(hypothesis.tokens, replace=copied)
            after_batch()
        return [texts[int(index)] for index in self._chosen]


class TrainableTranslator(TrainableWords):
    """A translator and its data. The loss is −log p(target | source), summed over target tokens and end symbols."""

    unit: ClassVar[str] = "target tokens"
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
    validator_class = TranslationValidator

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Tokenizer of the targets."""
        return self.parts.target

    def lengths(self, corpus: Any) -> np.ndarray:
        """Return the length of the longer side of each pair."""
        return np.maximum(corpus.source_lengths, corpus.target_lengths)

    def sizes(self, corpus: Any) -> np.ndarray:
        """Return the number of target tokens of each pair, including the end symbol."""
        return corpus.target_lengths

    def sampler(self) -> BucketBatchSampler:
        """Return the sampler of batches of pairs, grouped by the length of the longer side."""
        return BucketBatchSampler.of_run(self.config, self.data.train.source_lengths, self.data.train.target_lengths)

    def options(self, batch: Batch, step: int, total_steps: int) -> dict[str, Any]:
        training = self.config.training
        probability = gold_probability(training.teacher_forcing, step, total_steps)
        return super().options(batch, step, total_steps) | {
            "use_gold": draw_gold(batch.target_in, probability, training.teacher_forcing.unit),
            "alignment_weight": getattr(training, "alignment_weight", 0.0),
            "attention_loss_weight": training.attention_loss_weight,
            "report": self._add_attention_loss,
        }

    def is_repeatable(self) -> bool:
        """Return True if the decoder is always fed gold words, copies none, and no gold alignments or attention add a loss."""
        forcing = self.config.training.teacher_forcing
        plain = forcing.start >= 1 and forcing.end >= 1 and not self.config.data.alignments and not self.model.copies
        # A frozen encoder keeps states on the CPU's side, and those of `transformers` were not recorded on a GPU yet.
        plain = plain and not isinstance(self.config.model.encoder, PretrainedSourceConfig)
        return plain and not any(module.has_loss for module in self.model.modules() if isinstance(module, Attention))

    def _add_attention_loss(self, total: Tensor, count: Tensor) -> None:
        """Add the attention loss and the number of words of a batch to the sums for the next row of the logs."""
        # The sums stay on the device, so that the CPU does not wait for a GPU.
        for name, value in zip(_ATTENTION_SUMS, (total, count), strict=True):
            self.log_sums[name] = self.log_sums.get(name, 0.0) + value

    def row(self, step: int, total_steps: int) -> dict[str, float]:
        """Return the probability of feeding the gold word, and the mean loss of the attention since the last row, if any."""
        row = {"gold_probability": gold_probability(self.config.training.teacher_forcing, step, total_steps)}
        if self.log_sums:
            total, count = (self.log_sums.pop(name) for name in _ATTENTION_SUMS)
            row["attention_loss"] = float(total / count)
        return row

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe the loss, and BLEU, chrF and exact match if they were computed."""
        head = f"loss {scores['loss']:.3f} (perplexity {scores['perplexity']:,.2f})"
        if not scores["translated_pairs"]:
            return head
        how = scores["decoding"]
        return (
            f"{head}, BLEU {scores['bleu']:.1f} ({how}), chrF {scores['chrf']:.1f} ({how}), exact {scores['exact_match']:.1%}"
        )

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning if BLEU can't compare models on these pairs; else an empty text."""
        return warn_of_zero(scores["bleu"], scores["chrf"])


class WriterTraining(WordTraining):
    """The `Training` of models that write a text about a source."""

    def check(self, config: Any, model: object, attention: object) -> None:
        super().check(config, model, attention)
        training = config.training
        if attention is not None and not isinstance(attention, Attention):
            if not isinstance(config.model, RecurrentSettings):
                raise ConfigError(
                    f"an attention was given, but a model of kind '{config.model.kind}' takes no attention object; build a "
                    "model with your own attention, and give it to fit as `model`"
                )
            sizes = f"query_size={config.model.decoder.hidden_size}, key_size={config.model.states_size}"
            raise ConfigError(
                f"attention is {attention!r:.80}, expected an object of a regard.attention.Attention class, made for the "
                f"decoder's queries and the encoder's keys: {sizes}"
            )
        if training.monitor not in ("auto", "loss") and not training.validation_pairs:
            raise ConfigError(
                f"training.monitor is '{training.monitor}', but training.validation_pairs is 0, so no pair is scored; increase "
                "training.validation_pairs, or set training.monitor to 'loss'"
            )


class TranslationTraining(WriterTraining):
    """The `Training` of translators."""

    trainable = TrainableTranslator

    def read(
        self, config: TranslationConfig, learned: Tokenizers | None, *, progress: bool
    ) -> tuple[TranslationConfig, Prepared[EncodedCorpus], Tokenizers]:
        config, learned = self.use_teachers(config, learned)
        config = replace(config, data=name_languages(config.data))  # before the cache is asked, whose key has the languages
        if isinstance(config.model.encoder, PretrainedSourceConfig):
            config = _read_encoder(config)
        both = (learned.source, learned.target) if learned else None
        data = prepare_data(PairSchema(config.data, config.tokenizers, both), seed=config.seed, progress=progress)
        if config.data.alignments:
            data = add_gold_alignments(data, config.data)
        if config.model.copy:
            let_copy(data)
        training = config.training
        if training.monitor == "auto" and len(data.dev):
            some = range(0, len(data.dev) if training.validation_pairs else 0, 1 + len(data.dev) // 1000)
            references = data.dev.texts(some)[1]
            training = replace(training, monitor=suitable_monitor(data.tokenizers[1], references))
        tokenizers = Tokenizers(*data.tokenizers)
        source, target = data.configs
        chosen = TokenizersConfig(source=source, target=target, joint=data.report.joint)
        return replace(config, tokenizers=chosen, training=training), data, tokenizers

    def held_out(self, config: TranslationConfig, parts: Tokenizers) -> tuple[list[str], bool]:
        data = prepare_data(PairSchema(config.data, config.tokenizers, (parts.source, parts.target)), seed=config.seed)
        corpus = data.dev if len(data.dev) else data.train
        return corpus.texts(spread(len(corpus)))[0], corpus is data.dev

    def sizes(self, parts: Tokenizers) -> tuple[int, ...]:
        """Return the sizes of both vocabularies."""
        return parts.source.size, parts.target.size

    def build(self, config: TranslationConfig, parts: Tokenizers, model: Any, attention: Any) -> Seq2Seq:
        built = super().build(config, parts, model, attention)
        if built.copies != config.model.copy:
            raise ConfigError(
                f"the model given to fit {'copies' if built.copies else 'does not copy'} source words, but model.copy is "
                f"{str(config.model.copy).lower()}; set it to {str(built.copies).lower()}"
            )
        if config.data.alignments and "cross" not in built.sites:
            raise ConfigError("data.alignments trains attention, but this model has none over the source (no site `cross`)")
        return built


def _read_encoder(config: TranslationConfig) -> TranslationConfig:
    """Return the settings with the pretrained encoder's architecture and tokenizer."""
    model, tokenizers = config.model, config.tokenizers
    assert isinstance(model.encoder, PretrainedSourceConfig)
    encoder, source = read_encoder_of(model.encoder, tokenizers.source, config.data.max_tokens, ends=1, tuning="frozen")
    return replace(config, model=replace(model, encoder=encoder), tokenizers=replace(tokenizers, source=source))


def let_copy(data: Prepared[EncodedCorpus]) -> None:
    """Add the ids of copied words to the batches of both corpora; raise an error if no pair has a word to copy."""
    copier = Copier(*data.tokenizers)
    data.train.copier = data.dev.copier = copier
    starts = range(0, len(data.train), _CHECKED_PAIRS)
    batches = (data.train.batch(range(start, min(start + _CHECKED_PAIRS, len(data.train)))) for start in starts)
    if not any(bool((batch.target_out >= copier.target.size).any()) for batch in batches):  # stops at the first pair with one
        raise DataError(
            "model.copy is true, but no training pair has a word to copy: a target word that is not in the vocabulary and "
            "also in the source. Raise tokenizers.source.min_count and tokenizers.target.min_count (to 2), so that rare words "
            "such as names are outside the vocabularies, or set model.copy to false"
        )
