"""A text classifier from its configuration."""

from collections.abc import Sequence

from regard.config import (
    BagClassifierConfig,
    ClassifierConfig,
    HierarchicalClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from regard.errors import ConfigError
from regard.models.classifiers.recurrent import RecurrentClassifier
from regard.models.text_classifier import TextClassifier


def build_classifier(
    config: ClassifierConfig,
    *,
    vocabulary_size: int,
    num_labels: int,
    sentence_ends: Sequence[int] = (),
    embedding_size: int = 0,
) -> TextClassifier:
    """Build the model, its weights drawn from torch's generator.

    Args:
        config: What it is made of.
        vocabulary_size: Words of the vocabulary, special symbols included.
        num_labels: How many labels there are.
        sentence_ends: Ids of the tokens that end a sentence (. ! ? …), for the hierarchical model.
        embedding_size: Width of the embeddings where word vectors decide it; 0 for the configured width.

    Raises:
        ConfigError: If widths do not fit together.
    """
    match config:
        case RecurrentClassifierConfig():
            return RecurrentClassifier(
                config, vocabulary_size=vocabulary_size, num_labels=num_labels, embedding_size=embedding_size
            )
        case BagClassifierConfig() | HierarchicalClassifierConfig() | TransformerClassifierConfig():
            raise ConfigError(f"model.kind {config.kind} cannot be built yet")
