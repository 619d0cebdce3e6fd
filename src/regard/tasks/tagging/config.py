"""Settings of a run that trains a tagger."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from regard.config.data import BPEConfig, PretrainedTokenizerConfig, TaggedDataConfig, TokenizerConfig
from regard.config.fields import Count, Natural, Positive, Role
from regard.config.run import RunConfig
from regard.config.tagger import PretrainedTaggerConfig, RecurrentTaggerConfig, TaggerConfig, TransformerTaggerConfig
from regard.config.training import TrainingConfig
from regard.tasks.encoders import encoder_conflicts


class TaggingTrainingConfig(TrainingConfig):
    """Settings for training a tagger: duration, batches, optimizer and checkpoints."""

    max_epochs: Annotated[Count, Role.ADJUSTABLE] = 30
    batch_tokens: Count = 1024
    learning_rate: Annotated[Positive, Role.ADJUSTABLE] = 2e-3
    patience: Annotated[Natural, Role.ADJUSTABLE] = 8
    monitor: Literal["f1", "accuracy", "loss"] = "f1"
    """Score that decides which checkpoint is the best: F1 of the spans (for tags such as B-LOC; otherwise it is the accuracy),
    accuracy of the tags, or loss.
    """


class TaggingConfig(RunConfig):
    """Settings of a run that trains a tagger: data, tokenizer, model, training."""

    task: Literal["tagging"] = "tagging"
    data: TaggedDataConfig = field(default_factory=TaggedDataConfig)
    """Training data."""
    tokenizer: Annotated[TokenizerConfig, Role.VOCABULARY] = field(default_factory=BPEConfig)
    """Tokenizer that splits the words into the tokens that the model reads. A word is tagged at its first token."""
    model: TaggerConfig = field(default_factory=RecurrentTaggerConfig)
    """Architecture of the model."""
    training: TaggingTrainingConfig = field(default_factory=TaggingTrainingConfig)
    """Settings of the training."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield the conflicts between settings of the run; see `RunConfig.conflicts`."""
        yield from super().conflicts()
        if isinstance(self.model, TransformerTaggerConfig):
            yield from self.model.width_conflicts(self.model.embedding_size, "model.embedding_size")
        if isinstance(self.model, PretrainedTaggerConfig):
            yield from encoder_conflicts(self, self.model.encoder, self.tokenizer, "tokenizer", default=BPEConfig())
        elif isinstance(self.tokenizer, PretrainedTokenizerConfig):
            message = f"tokenizer.kind is 'pretrained', but the model is '{self.model.kind}'"
            yield "tokenizer.kind", f"{message}; set model.kind to pretrained, or leave tokenizer.kind out"
