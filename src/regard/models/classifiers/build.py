"""Build a text classifier from its configuration."""

from collections.abc import Sequence
from typing import assert_never

from regard.attention.pooling import Pooling
from regard.config import (
    BagClassifierConfig,
    ClassifierConfig,
    CombinedClassifierConfig,
    HierarchicalClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from regard.errors import ConfigError
from regard.models.classifiers.bag import BagClassifier
from regard.models.classifiers.combined import CombinedClassifier
from regard.models.classifiers.counted import CountedClassifier
from regard.models.classifiers.hierarchical import HierarchicalClassifier
from regard.models.classifiers.recurrent import RecurrentClassifier
from regard.models.classifiers.transformer import build_transformer_classifier
from regard.models.text_classifier import TextClassifier

RECURRENT_SHARE = 0.25  # total share of the recurrent members; small, as they make more errors with few texts


def build_classifier(
    config: ClassifierConfig,
    *,
    vocabulary_size: int,
    num_labels: int,
    sentence_ends: Sequence[int] = (),
    embedding_size: int = 0,
    pooling: Pooling | None = None,
) -> TextClassifier:
    """Build the model, with initial weights from PyTorch's random generator.

    Args:
        config: Settings of the model.
        vocabulary_size: Number of words, including special symbols.
        num_labels: Number of labels.
        sentence_ends: Ids of the tokens that end a sentence (. ! ? …), for the hierarchical model.
        embedding_size: Width of pretrained word vectors, if some will be loaded; 0 for the configured width.
        pooling: The user's own pooling, which replaces the configured one.

    Raises:
        ConfigError: If sizes do not match, an id of `sentence_ends` is not in the vocabulary, or `pooling` is given for a model
            that does not have exactly one pooling.
    """
    model = _build(config, vocabulary_size, num_labels, sentence_ends, embedding_size)
    if pooling is not None:
        _replace_pooling(model, pooling)
    return model


def check_pooling(name: str, pooling: object) -> None:
    """Check that the caller's own object is a pooling.

    Raises:
        ConfigError: If it is not.
    """
    if not isinstance(pooling, Pooling):
        raise ConfigError(f"{name} is {pooling!r:.80}, expected an object of a regard.attention.Pooling class")


def _replace_pooling(model: TextClassifier, pooling: Pooling) -> None:
    check_pooling("pooling", pooling)
    own = getattr(model, "pooling", None)
    if not isinstance(own, Pooling):
        raise ConfigError(f"a {type(model).__name__} has several poolings or none, so your own pooling cannot replace it")
    wanted, given = (own.size, own.output_size), (pooling.size, pooling.output_size)
    if given != wanted:
        raise ConfigError(
            f"the pooling reads states of width {given[0]} and returns width {given[1]}, but this {type(model).__name__} needs "
            f"widths {wanted[0]} and {wanted[1]}"
        )
    model.pooling = pooling


def _build(
    config: ClassifierConfig, vocabulary_size: int, num_labels: int, sentence_ends: Sequence[int], embedding_size: int
) -> TextClassifier:
    match config:
        case RecurrentClassifierConfig():
            return RecurrentClassifier(
                config, vocabulary_size=vocabulary_size, num_labels=num_labels, embedding_size=embedding_size
            )
        case TransformerClassifierConfig():
            return build_transformer_classifier(
                config, vocabulary_size=vocabulary_size, num_labels=num_labels, embedding_size=embedding_size
            )
        case BagClassifierConfig():
            return BagClassifier(config, vocabulary_size=vocabulary_size, num_labels=num_labels, embedding_size=embedding_size)
        case HierarchicalClassifierConfig():
            return HierarchicalClassifier(
                config,
                vocabulary_size=vocabulary_size,
                num_labels=num_labels,
                sentence_ends=sentence_ends,
                embedding_size=embedding_size,
            )
        case CombinedClassifierConfig(counted=counted, recurrent=recurrent, num_recurrent=count):
            sizes = {"vocabulary_size": vocabulary_size, "num_labels": num_labels}
            members = [
                CountedClassifier(counted, **sizes),
                *(RecurrentClassifier(recurrent, **sizes, embedding_size=embedding_size) for _ in range(count)),
            ]
            return CombinedClassifier(
                members,
                widths=[num_labels, *[embedding_size or recurrent.embedding_size] * count],
                shares=[1 - RECURRENT_SHARE, *[RECURRENT_SHARE / count] * count],
                names=["counted", *(f"recurrent.{number}" for number in range(count))],
            )
        case _:
            assert_never(config)
