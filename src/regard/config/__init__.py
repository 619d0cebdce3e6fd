"""Settings of a run: frozen dataclasses that are read from YAML with strict checks, and written to YAML, without torch."""

from regard.config.attention import (
    AdditiveConfig,
    AttentionConfig,
    ConcatConfig,
    CosineScoreConfig,
    CoverageConfig,
    DotConfig,
    FertilityCoverageConfig,
    GeneralConfig,
    HardMoChAConfig,
    HardMonotonicConfig,
    LinearConfig,
    LocalMonotonicConfig,
    LocalPredictiveConfig,
    LocationSensitiveConfig,
    MoChAConfig,
    MonotonicConfig,
    ScorerConfig,
    SelfAttentionConfig,
    SumConcatConfig,
    TrilinearConfig,
    WeightNormAdditiveConfig,
)
from regard.config.classifier import (
    BagClassifierConfig,
    ClassifierConfig,
    CombinedClassifierConfig,
    CountedClassifierConfig,
    HierarchicalClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from regard.config.data import (
    AutoConfig,
    BPEConfig,
    CharactersConfig,
    DataConfig,
    FixedTokenizerConfig,
    LabelledDataConfig,
    SpacyConfig,
    TextDataConfig,
    TokenizerConfig,
    TokenizersConfig,
    UnigramConfig,
    WhitespaceConfig,
    WordsConfig,
)
from regard.config.heads import (
    ContextualPositionAttentionConfig,
    DifferentialAttentionConfig,
    ForgettingAttentionConfig,
    GatedDeltaNetConfig,
    HeadModifiersConfig,
    HeadsConfig,
    LatentAttentionConfig,
    LinearAttentionConfig,
    MultiHeadConfig,
    RotaryConfig,
    SoftmaxHeadsConfig,
)
from regard.config.language import GenerationConfig, LanguageModelConfig
from regard.config.model import (
    BahdanauDecoderConfig,
    DecoderConfig,
    EncoderConfig,
    LuongDecoderConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.config.normalizers import (
    Entmax15Config,
    EntmaxConfig,
    NormalizerConfig,
    SigmoidConfig,
    SinkConfig,
    SoftmaxConfig,
    SoftpickConfig,
    SparsemaxConfig,
    StickBreakingConfig,
)
from regard.config.pooling import (
    AdditivePoolingConfig,
    LinearPoolingConfig,
    MeanPoolingConfig,
    MultiHeadPoolingConfig,
    PoolingConfig,
)
from regard.config.run import RunConfig
from regard.config.settings import DataSettings, ModelSettings, Settings
from regard.config.training import (
    ConstantConfig,
    CosineConfig,
    DecodingConfig,
    DistillationConfig,
    InverseSquareRootConfig,
    LinearDecayConfig,
    PlateauConfig,
    ScheduleConfig,
    TeacherForcingConfig,
    TrainingConfig,
)

__all__ = sorted(name for name, value in globals().items() if isinstance(value, type) or name.endswith("Config"))
