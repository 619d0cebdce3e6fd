"""A model from its configuration."""

from regard.attention.base import Attention
from regard.config import ModelConfig, RecurrentConfig, TransformerConfig
from regard.errors import ConfigError
from regard.models.classifiers.build import build_classifier
from regard.models.language.build import build_language_model
from regard.models.recurrent.build import build_recurrent
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer.build import build_transformer

__all__ = ["build_classifier", "build_language_model", "build_translator"]


def build_translator(config: ModelConfig, *, source_size: int, target_size: int, attention: Attention | None = None) -> Seq2Seq:
    """Build a translator for vocabularies of these sizes; `attention` takes the configured mechanism's place.

    Raises:
        ConfigError: If widths do not fit together, or the model has no single mechanism to be replaced.
    """
    match config:
        case RecurrentConfig():
            return build_recurrent(config, source_size=source_size, target_size=target_size, attention=attention)
        case TransformerConfig():
            if attention is not None:
                raise ConfigError(
                    "a Transformer has an attention in every layer, and one object cannot take the place of all: build a "
                    "regard.models.transformer.TransformerTranslator of layers that hold your own, and give that as `model`"
                )
            return build_transformer(config, source_size=source_size, target_size=target_size)
