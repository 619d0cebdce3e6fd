"""Settings of a translation run."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from regard.config.data import DataConfig, PretrainedTokenizerConfig, TokenizersConfig
from regard.config.fields import Natural, NotNegative, Role
from regard.config.model import ModelConfig, RecurrentConfig, TransformerConfig
from regard.config.pretrained import PretrainedSourceConfig
from regard.config.run import RunConfig
from regard.config.training import (
    DecodingConfig,
    DistillationConfig,
    NoConsistencyConfig,
    TeacherForcingConfig,
    TrainingConfig,
    describe_length_conflict,
)
from regard.tasks.encoders import encoder_conflicts


class WriterTrainingConfig(TrainingConfig):
    """Settings for training models that write a text about a source."""

    teacher_forcing: Annotated[TeacherForcingConfig, Role.ADJUSTABLE] = field(default_factory=TeacherForcingConfig)
    """Probability that the decoder is fed the gold word instead of its own word."""
    attention_loss_weight: Annotated[NotNegative, Role.ADJUSTABLE] = 1.0
    """Weight λ of the loss that attention of kind `coverage` adds (See et al. 2017); 0 for none. Other kinds add no loss."""
    validation_pairs: Annotated[Natural, Role.ADJUSTABLE] = 500
    """Number of dev pairs whose target each validation writes for BLEU, chrF and exact match; the loss is computed on all
    pairs.
    """


class TranslationTrainingConfig(WriterTrainingConfig):
    """Settings for training a translator: duration, batches, optimizer and checkpoints."""

    alignment_weight: Annotated[NotNegative, Role.ADJUSTABLE] = 0.05
    """Weight λ of the loss that pulls the attention to the links of `data.alignments` (Garg et al. 2019); no effect if
    `data.alignments` is empty.
    """
    monitor: Literal["auto", "bleu", "chrf", "exact_match", "loss"] = "auto"
    """Score that decides which checkpoint is the best; if scores are equal, the lower loss decides. `auto` is BLEU,
    chrF if most dev targets have fewer than four words, which BLEU can't compare, or the loss if `validation_pairs` is 0.
    """


class TranslationConfig(RunConfig):
    """A translation run: data, tokenizers, model, training, decoding."""

    task: Literal["translation"] = "translation"
    data: DataConfig = field(default_factory=DataConfig)
    """Training data."""
    tokenizers: Annotated[TokenizersConfig, Role.VOCABULARY] = field(default_factory=TokenizersConfig)
    """Tokenizers of both sides."""
    model: ModelConfig = field(default_factory=RecurrentConfig)
    """Architecture of the model."""
    training: TranslationTrainingConfig = field(default_factory=TranslationTrainingConfig)
    """Settings of the training."""
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    """Trained models to learn from, in addition to the gold words."""
    decoding: Annotated[DecodingConfig, Role.ADJUSTABLE] = field(default_factory=DecodingConfig)
    """Settings of the search for translations."""

    @property
    def fits_page(self) -> bool:
        """Whether `regard page` can write the model."""
        return not self.model.copy and not self.model.wait_k and self.tokenizers.source.kind not in ("pretrained", "spacy")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield the conflicts between settings of the run; see `RunConfig.conflicts`."""
        yield from super().conflicts()
        tokenizers, model, data = self.tokenizers, self.model, self.data
        if isinstance(model.encoder, PretrainedSourceConfig):
            yield from encoder_conflicts(self, model.encoder, tokenizers.source, "tokenizers.source", TokenizersConfig().source)
            if tokenizers.joint or model.tie_embeddings == "all":
                name = "tokenizers.joint" if tokenizers.joint else "model.tie_embeddings"
                yield name, f"{name} shares one vocabulary, but a pretrained encoder has its own; leave it out"
        elif isinstance(tokenizers.source, PretrainedTokenizerConfig):
            message = "tokenizers.source.kind is 'pretrained', which needs model.encoder.kind pretrained"
            yield "tokenizers.source.kind", f"{message}; choose another kind, such as bpe"
        if isinstance(tokenizers.target, PretrainedTokenizerConfig):
            message = "tokenizers.target.kind is 'pretrained', but a target is not read by the encoder"
            yield "tokenizers.target.kind", f"{message}; choose another kind, such as bpe"
        if tokenizers.joint and tokenizers.source != tokenizers.target:
            yield (
                "tokenizers.joint",
                "tokenizers.joint is true, so tokenizers.target must have the settings of tokenizers.source",
            )
        if self.training.bpe_dropout and data.alignments:
            yield (
                "training.bpe_dropout",
                "training.bpe_dropout splits words in other ways than the links of data.alignments count them; set only one",
            )
        yield from length_conflicts(self.decoding)
        if model.tie_embeddings == "all" and not tokenizers.joint:
            yield (
                "model.tie_embeddings",
                "model.tie_embeddings is 'all', which needs one vocabulary: set tokenizers.joint to true",
            )
        if isinstance(model, TransformerConfig):
            yield from model.layer_conflicts()
        else:
            yield from model.readout_conflicts()
        yield from model.wait_conflicts()
        if model.wait_k and self.decoding.beam_size > 1:
            yield (
                "decoding.beam_size",
                f"decoding.beam_size is {self.decoding.beam_size}, but beam search revises words after it has read on, and "
                f"model.wait_k is {model.wait_k}; set decoding.beam_size to 1",
            )
        if model.copy:
            yield from self._copying_conflicts()
        for name, value in (("train", data.train), ("dev", data.dev)):
            if len(value) > 2:
                yield f"data.{name}", f"data.{name} names {len(value)} files, expected one file of pairs or two parallel files"
        if len(data.columns) not in (0, 2):
            yield "data.columns", f"data.columns names {len(data.columns)}, expected two: the source's and the target's"

    def _copying_conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield conflicts with `model.copy`: tokens that are not words, and losses without an extended vocabulary."""
        for side in ("source", "target"):
            if (kind := getattr(self.tokenizers, side).kind) in ("bpe", "unigram", "characters"):
                yield (
                    f"tokenizers.{side}.kind",
                    f"model.copy copies words, but tokenizers.{side}.kind is '{kind}', which spells unknown words from known "
                    "parts; set the kind of both tokenizers to words, or model.copy to false",
                )
        if not isinstance(self.training.consistency, NoConsistencyConfig):
            yield "training.consistency.kind", "model.copy is true, which needs training.consistency.kind none"
        if self.model.wait_k:
            yield "model.wait_k", "model.copy is true, which translates whole sources; set model.wait_k to 0"
        if self.distillation.teachers:
            yield (
                "distillation.teachers",
                "model.copy is true, but a student of teachers cannot copy words; set only one of the two",
            )


def length_conflicts(decoding: DecodingConfig) -> Iterator[tuple[str, str]]:
    """Yield a conflict if the maximum length of a search is too small for its minimum length."""
    if message := describe_length_conflict(decoding.min_length, decoding.max_length):
        yield "decoding.min_length", f"decoding: {message}"
