"""What one run is, whole: everything that decides its result."""

from dataclasses import dataclass, field

from regard.config.data import DataConfig, TokenizersConfig
from regard.config.model import ModelConfig, RecurrentConfig
from regard.config.training import DecodingConfig, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    """A translation run: data, tokenizers, model, training, decoding."""

    data: DataConfig = field(default_factory=DataConfig)
    tokenizers: TokenizersConfig = field(default_factory=TokenizersConfig)
    model: ModelConfig = field(default_factory=RecurrentConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    out: str = ""
    """Folder of the run. Empty: `runs/` and the data's and the preset's names."""
    overwrite: bool = False
    """Replace a run that `out` already holds."""
    seed: int = 1
    """Governs the split, the order of batches, the weights and the dropout."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, or `cuda:N`."""
    threads: int = 0
    """CPU threads; 0 for all cores."""
