"""What one run is, whole: everything that decides its result."""

from dataclasses import dataclass, field
from typing import Literal

import yaml

from regard.config.classifier import ClassifierConfig, RecurrentClassifierConfig
from regard.config.data import AutoConfig, BPEConfig, DataConfig, TokenizerConfig, TokenizersConfig
from regard.config.labelled import LabelledDataConfig
from regard.config.language import GenerationConfig, LanguageModelConfig, TextDataConfig
from regard.config.model import ModelConfig, RecurrentConfig
from regard.config.settings import Settings, changed_settings
from regard.config.training import (
    ClassificationTrainingConfig,
    DecodingConfig,
    LanguageTrainingConfig,
    TrainingConfig,
    TranslationTrainingConfig,
)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Settings):
    """What every run has."""

    task: str = ""
    """What is trained: translation, classification, language."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    out: str = ""
    """Folder of the run. Empty: `runs/` and the data's and the preset's names."""
    start_from: str = ""
    """Folder of a trained model to start from, with its vocabulary (`--from`). Empty: start from random weights."""
    overwrite: bool = False
    """Replace a run that `out` already holds."""
    seed: int = 1
    """Governs the split, the order of batches, the weights and the dropout."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, or `cuda:N`."""
    threads: int = 0
    """CPU threads; 0 for all cores."""
    chosen: tuple[str, ...] = ()
    """Reasons for the settings that were chosen from the data; written by regard, not a setting."""

    def __repr__(self) -> str:
        """Return the task and the settings that differ from the defaults, as YAML that `--config` reads."""
        settings = {"task": self.task} | changed_settings(self)
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=120).rstrip()
        return f"# {type(self).__name__}: settings that differ from the defaults\n{text}"


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(RunConfig):
    """A translation run: data, tokenizers, model, training, decoding."""

    task: Literal["translation"] = "translation"
    data: DataConfig = field(default_factory=DataConfig)
    tokenizers: TokenizersConfig = field(default_factory=TokenizersConfig)
    model: ModelConfig = field(default_factory=RecurrentConfig)
    training: TranslationTrainingConfig = field(default_factory=TranslationTrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(RunConfig):
    """A classification run: data, tokenizer, model, training."""

    task: Literal["classification"] = "classification"
    data: LabelledDataConfig = field(default_factory=LabelledDataConfig)
    tokenizer: TokenizerConfig = field(default_factory=lambda: AutoConfig(lowercase=True))
    model: ClassifierConfig = field(default_factory=RecurrentClassifierConfig)
    training: ClassificationTrainingConfig = field(default_factory=ClassificationTrainingConfig)


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(RunConfig):
    """A language model's run: data, tokenizer, model, training, generation."""

    task: Literal["language"] = "language"
    data: TextDataConfig = field(default_factory=TextDataConfig)
    tokenizer: TokenizerConfig = field(default_factory=BPEConfig)
    model: LanguageModelConfig = field(default_factory=LanguageModelConfig)
    training: LanguageTrainingConfig = field(default_factory=LanguageTrainingConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)


AnyConfig = TranslationConfig | ClassificationConfig | LanguageConfig
TASKS: dict[str, type[TranslationConfig] | type[ClassificationConfig] | type[LanguageConfig]] = {
    "translation": TranslationConfig,
    "classification": ClassificationConfig,
    "language": LanguageConfig,
}
"""What `regard train` can be followed by."""
