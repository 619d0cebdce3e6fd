"""Bases of classifiers that embed the words and pool their states, and the parts that they share."""

from abc import ABC, abstractmethod
from collections.abc import Collection

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.pooling import Pooling
from regard.config.classifier import NeuralClassifierSettings, PretrainedClassifierConfig, WordEncoderSettings
from regard.layers.dropout import Dropout
from regard.models.text_classifier import Classified, TextClassifier
from regard.reweight import Reweight, ReweightBySite, Sites
from regard.shapes import check_shape
from regard.text.symbols import PAD, UNKNOWN


def build_embedding(vocabulary_size: int, embedding_size: int) -> nn.Embedding:
    """Return word embeddings drawn from a normal distribution of variance 1/E; the embedding of padding stays zero."""
    # With variance 1, PyTorch's default, a recurrent classifier learns several times slower and reaches a lower accuracy
    # (`benchmarks/log.md`).
    embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=PAD)
    with torch.no_grad():
        embedding.weight.mul_(embedding_size**-0.5)
    return embedding


class WordDropout(nn.Module):
    """Dropout that replaces words by the unknown symbol in training.

    Reference: Iyyer et al. 2015, section 3.1, where words are removed.
    Differs from the paper: words are replaced, so that no text becomes empty.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
        """Return the tokens, some of them replaced."""
        if not self.training or not self.probability:
            return tokens
        hidden = torch.rand(tokens.shape, device=tokens.device) < self.probability
        return tokens.masked_fill(hidden & mask, UNKNOWN)

    def extra_repr(self) -> str:
        return f"probability={self.probability}"


class WordEmbedder(nn.Module):
    """Base of models that embed the tokens of texts."""

    embedding: nn.Embedding
    word_dropout: WordDropout

    def build_dropouts(self, config: WordEncoderSettings | PretrainedClassifierConfig) -> None:
        """Build the dropouts before and after the embedding."""
        self.word_dropout, self.embedding_dropout = WordDropout(config.word_dropout), Dropout(config.embedding_dropout)

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the input embeddings of the tokens, before any dropout."""
        embedded: Tensor = self.embedding(tokens)
        return embedded

    def embed_text(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the embeddings of texts, in training with some words replaced."""
        # N-grams of the embedding must not reach into what lies behind the mask.
        return self.embed(self.word_dropout(tokens, mask).masked_fill(~mask, PAD))


class TextEncoder(WordEmbedder, ABC):
    """Base of models that compute a state for each token of a text: classifiers with a pooling, and encoders of taggers."""

    sites: tuple[str, ...] = ()
    size: int
    """Width of the states."""

    @abstractmethod
    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the tokens, given their embeddings, and add the weights of attention layers to `sites`."""


class NeuralClassifier(WordEmbedder, TextClassifier):
    """A classifier of embedded words. Subclasses define `classify`, which computes the scores from the embeddings."""

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        check_shape("mask", mask, "B S", check_shape("tokens", tokens, "B S"))
        embedded = self.embed_text(tokens, mask) if embedded is None else embedded
        sites = Sites(record, self.by_site(reweight))
        logits = self.classify(tokens, embedded, mask, sites)
        return Classified(logits, {site: sites.maps[site] for site in record if site in sites.maps})

    @abstractmethod
    def classify(
        self, tokens: Int[Tensor, "B S"], embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites
    ) -> Float[Tensor, "B C"]:
        """Return the scores of the labels from the embeddings of the tokens, and add the weights to `sites`."""


class PooledClassifier(NeuralClassifier, TextEncoder):
    """logits = W Σ_s weight_s h_s + b: attention pooling of the states h, dropout, and a linear layer."""

    sites: tuple[str, ...] = ("pool",)
    pooling: Pooling

    def build_head(self, config: NeuralClassifierSettings | PretrainedClassifierConfig, num_labels: int) -> None:
        """Build the pooling of the states, and the output layer."""
        self.output_dropout = Dropout(config.output_dropout)
        self.pooling = config.pooling.build(size=self.size)
        self.output = nn.Linear(self.pooling.output_size, num_labels)

    def classify(
        self, tokens: Int[Tensor, "B S"], embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites
    ) -> Float[Tensor, "B C"]:
        return self.score(self.states(embedded, mask, sites), mask, sites)

    def score(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B C"]:
        """Return the scores of the labels from the states of the texts."""
        context, weights = self.pooling(states, key_mask=mask, reweight=sites.options("pool").get("reweight"))
        sites.add("pool", weights)
        return self.output(self.output_dropout(context))
