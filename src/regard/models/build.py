"""A model from its configuration."""

from regard.attention.base import Attention
from regard.config import ModelConfig, RecurrentConfig
from regard.models.classifiers.build import build_classifier
from regard.models.recurrent.build import build_recurrent
from regard.models.seq2seq import Seq2Seq

__all__ = ["build_classifier", "build_translator"]


def build_translator(config: ModelConfig, *, source_size: int, target_size: int, attention: Attention | None = None) -> Seq2Seq:
    """Build a translator for vocabularies of these sizes; `attention` takes the configured mechanism's place."""
    match config:
        case RecurrentConfig():
            return build_recurrent(config, source_size=source_size, target_size=target_size, attention=attention)
