"""From a config to a mechanism, or to a pooling."""

from typing import Literal, assert_never

from torch import nn

from regard.attention.additive import Additive, Concat, SumConcat
from regard.attention.base import Attention
from regard.attention.linear import LinearConcat
from regard.attention.multiplicative import Dot, General, ScaledDot
from regard.attention.normalizers import Entmax15, Softmax, Sparsemax
from regard.attention.pooling import AdditivePooling, AttentionPooling, MeanPooling, MultiHeadPooling, Pooling
from regard.attention.scored import check_equal_widths
from regard.config.attention import (
    AdditiveConfig,
    AttentionConfig,
    ConcatConfig,
    DotConfig,
    GeneralConfig,
    LinearConfig,
    SumConcatConfig,
)
from regard.config.classifier import (
    AdditivePoolingConfig,
    LinearPoolingConfig,
    MeanPoolingConfig,
    MultiHeadPoolingConfig,
    PoolingConfig,
)

_REMEDY = "Make them equal, or choose 'general' (a matrix between them) or 'additive', which take any two widths"


def build_attention(config: AttentionConfig, *, query_size: int, key_size: int) -> Attention:
    """Build the mechanism that a config describes.

    Args:
        config: One of `regard.config.attention`.
        query_size: Dq, width of the queries.
        key_size: Dk, width of the keys.

    Raises:
        ConfigError: If a width is below 1, or the score needs both to be equal and they are not.
    """
    match config:
        case AdditiveConfig(attention_size=size, bias=bias):
            return Additive(query_size, key_size=key_size, attention_size=size or query_size, bias=bias)
        case ConcatConfig(attention_size=size):
            return Concat(query_size, key_size=key_size, attention_size=size or query_size)
        case SumConcatConfig(attention_size=size):
            check_equal_widths("SumConcat", query_size, key_size, _REMEDY)
            return SumConcat(query_size, attention_size=size or query_size)
        case DotConfig(scaled=scaled):
            check_equal_widths("Dot", query_size, key_size, _REMEDY)
            return ScaledDot(query_size) if scaled else Dot(query_size)
        case GeneralConfig():
            return General(query_size, key_size=key_size)
        case LinearConfig():
            return LinearConcat(query_size, key_size=key_size)
        case _:
            assert_never(config)


def build_pooling(config: PoolingConfig, *, size: int) -> Pooling:
    """Build the pooling that a configuration describes. Its context has the width `output_size`.

    Args:
        config: The configuration.
        size: Width of the values.

    Raises:
        ConfigError: If a width or the number of heads is below 1.
    """
    match config:
        case LinearPoolingConfig():
            return AttentionPooling(size, normalizer=_build_normalizer(config.normalizer))
        case AdditivePoolingConfig():
            width = config.attention_size or size
            return AdditivePooling(size, attention_size=width, normalizer=_build_normalizer(config.normalizer))
        case MultiHeadPoolingConfig():
            width, normalizer = config.attention_size or size, _build_normalizer(config.normalizer)
            return MultiHeadPooling(size, num_heads=config.num_heads, attention_size=width, normalizer=normalizer)
        case MeanPoolingConfig():
            return MeanPooling(size)
        case _:
            assert_never(config)


def _build_normalizer(name: Literal["softmax", "sparsemax", "entmax15"]) -> nn.Module:
    return {"softmax": Softmax, "sparsemax": Sparsemax, "entmax15": Entmax15}[name]()
