"""Settings of a run that trains a language model."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from regard.config.data import AutoConfig, BPEConfig, LearnedTokenizer, TextDataConfig
from regard.config.fields import Role
from regard.config.language import GenerationConfig, LanguageModelConfig
from regard.config.run import RunConfig
from regard.config.training import DistillationConfig, TrainingConfig


class LanguageTrainingConfig(TrainingConfig):
    """Settings for training a language model: duration, batches, optimizer and checkpoints."""

    monitor: Literal["loss"] = "loss"
    """Score that decides which checkpoint is the best."""


class LanguageConfig(RunConfig):
    """Settings of a run that trains a language model: data, tokenizer, model, training, generation."""

    task: Literal["language"] = "language"
    data: TextDataConfig = field(default_factory=TextDataConfig)
    """Training data."""
    tokenizer: Annotated[LearnedTokenizer | AutoConfig, Role.VOCABULARY] = field(default_factory=BPEConfig)
    """Tokenizer of the texts."""
    model: LanguageModelConfig = field(default_factory=LanguageModelConfig)
    """Architecture of the model."""
    training: LanguageTrainingConfig = field(default_factory=LanguageTrainingConfig)
    """Settings of the training."""
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    """Trained models to learn from, in addition to the gold words."""
    generation: Annotated[GenerationConfig, Role.ADJUSTABLE] = field(default_factory=GenerationConfig)
    """Default settings for generating texts."""

    @property
    def fits_page(self) -> bool:
        """Whether `regard page` can write the model."""
        return self.tokenizer.kind != "spacy"

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield the conflicts between settings of the run; see `RunConfig.conflicts`."""
        yield from super().conflicts()
        yield from self.model.width_conflicts(self.model.hidden_size)
