"""What a run is: frozen dataclasses, without torch, that load from and dump to YAML strictly."""

from regard.config.attention import (
    AdditiveConfig,
    AttentionConfig,
    ConcatConfig,
    DotConfig,
    GeneralConfig,
    LinearConfig,
    SumConcatConfig,
)
from regard.config.data import (
    BPEConfig,
    CharactersConfig,
    DataConfig,
    SpacyConfig,
    TokenizerConfig,
    TokenizersConfig,
    UnigramConfig,
    WhitespaceConfig,
    WordsConfig,
)
from regard.config.model import (
    BahdanauDecoderConfig,
    DecoderConfig,
    EncoderConfig,
    LuongDecoderConfig,
    ModelConfig,
    RecurrentConfig,
)
from regard.config.run import TranslationConfig
from regard.config.training import (
    ConstantConfig,
    CosineConfig,
    DecodingConfig,
    InverseSquareRootConfig,
    LinearDecayConfig,
    PlateauConfig,
    ScheduleConfig,
    TeacherForcingConfig,
    TrainingConfig,
)

__all__ = [name for name in dir() if name.endswith("Config")]
