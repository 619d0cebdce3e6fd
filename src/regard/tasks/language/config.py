"""Settings of a language model's run."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from regard.config.checks import transformer_misfits
from regard.config.data import BPEConfig, TextDataConfig, TokenizerConfig
from regard.config.language import GenerationConfig, LanguageModelConfig
from regard.config.run import RunConfig
from regard.config.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class LanguageTrainingConfig(TrainingConfig):
    """How a language model is trained: length, batches, optimizer and what is kept."""

    monitor: Literal["loss"] = "loss"
    """Score that the best checkpoint is chosen by."""


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(RunConfig):
    """A language model's run: data, tokenizer, model, training, generation."""

    task: Literal["language"] = "language"
    data: TextDataConfig = field(default_factory=TextDataConfig)
    """Data to learn from."""
    tokenizer: TokenizerConfig = field(default_factory=BPEConfig)
    """How texts become symbols."""
    model: LanguageModelConfig = field(default_factory=LanguageModelConfig)
    """Architecture of the model."""
    training: LanguageTrainingConfig = field(default_factory=LanguageTrainingConfig)
    """How the model is trained."""
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    """How texts are generated."""

    def misfits(self) -> Iterator[tuple[str, str]]:
        """As `RunConfig.misfits`, for this task's own settings too."""
        yield from super().misfits()
        yield from transformer_misfits(self.model, self.model.hidden_size)
