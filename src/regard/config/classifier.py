"""Settings of the model of a text classifier."""

from dataclasses import field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from regard.config.fields import Count, Depth, Dropout, NotNegative, Width
from regard.config.model import Cell, LayerSettings
from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.pooling import AdditivePoolingConfig, LinearPoolingConfig, MeanPoolingConfig, PoolingConfig
from regard.config.pretrained import PretrainedEncoderConfig
from regard.config.settings import ModelSettings, Settings


class WordEncoderSettings(ModelSettings):
    """Settings of models that embed the words of a text."""

    kind: str = ""
    embedding_size: Width = 100
    """Width of the embeddings. If training starts from word vectors, their width is used instead."""
    word_dropout: Dropout = 0.0
    """Share of the words, chosen at random, that training replaces with the unknown symbol."""
    embedding_dropout: Dropout = 0.5
    """Dropout on the embeddings."""
    output_dropout: Dropout = 0.5
    """Dropout on the vector from which labels are predicted."""


class RecurrentEncoderSettings(WordEncoderSettings):
    """Settings of models with recurrent layers over the words."""

    cell: Cell = "lstm"
    """Kind of the recurrent cells."""
    hidden_size: Width = 128
    """Width of the states of each direction."""
    num_layers: Depth = 1
    """Number of recurrent layers."""
    bidirectional: bool = True
    """If True, each layer also reads the text backwards, from its last word to its first."""
    layer_dropout: Dropout = 0.0
    """Dropout on the output of each recurrent layer except the last."""


class TransformerEncoderSettings(LayerSettings, WordEncoderSettings):
    """Settings of models with a Transformer encoder over the words."""

    embedding_size: Width = 128
    """Width of the model, including the residual stream; word vectors that training starts from are mapped to this width."""
    num_layers: Depth = 2
    """Number of layers."""
    feed_forward_size: Width = 256
    feed_forward: Literal["relu", "gelu", "swiglu"] = "gelu"
    norm_first: bool = True
    """If True, there is a norm before each attention and each feed-forward network (pre-norm), else after it (post-norm)."""
    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """Function that turns the scores of self-attention into weights."""
    embedding_dropout: Dropout = 0.1
    layer_dropout: Dropout = 0.1
    """Dropout on the output of each attention and feed-forward network, before it is added to the residual stream, and on the
    hidden layer of each feed-forward network.
    """
    output_dropout: Dropout = 0.1

    @property
    def hidden_size(self) -> int:
        """Width of the model, as `TransformerConfig` names it."""
        return self.embedding_size

    @property
    def norm_order(self) -> Literal["pre", "post"]:
        """Position of the norms, as `TransformerConfig` names it."""
        return "pre" if self.norm_first else "post"

    @property
    def activation_dropout(self) -> float:
        """Dropout on the hidden layer of each feed-forward network."""
        return self.layer_dropout


class NeuralClassifierSettings(WordEncoderSettings):
    """Settings of classifiers that embed the words and pool their states into one vector."""

    pooling: PoolingConfig = field(default_factory=LinearPoolingConfig)
    """Pooling of the states of the words into one vector."""


class RecurrentClassifierConfig(RecurrentEncoderSettings, NeuralClassifierSettings, kind="recurrent"):
    """Embedding, recurrent layers over the words, attention pooling, linear layer."""


class BagClassifierConfig(NeuralClassifierSettings, kind="bag"):
    """Embeddings of words and n-grams, attention pooling, linear layer.

    It is fast and accurate, and ignores word order beyond n-grams.
    """

    max_ngram: Annotated[int, Ge(1), Le(1000)] = 2
    """Maximum number of words in an n-gram; 1 for single words only."""
    num_buckets: Count = 65536
    """Number of rows of the table into which n-grams of two and more words are hashed. N-grams with the same row share its
    vector.
    """
    count_smoothing: NotNegative = 1.0
    """Number that is added to the count of each word or n-gram before training computes its initial weights from the log-count
    ratios (Wang & Manning 2012); 0 to start from weights that do not depend on counts. Ignored with `data.vectors`.
    """
    output_dropout: Dropout = 0.0


class HierarchicalClassifierConfig(NeuralClassifierSettings, kind="hierarchical"):
    """Attention over the words of each sentence, then over the sentences of the text (Yang et al. 2016)."""

    cell: Cell = "gru"
    """Kind of the recurrent cells."""
    hidden_size: Width = 64
    """Width of the states of each direction, in the layer over words and in the layer over sentences."""
    pooling: PoolingConfig = field(default_factory=AdditivePoolingConfig)
    """Pooling of the words into one vector per sentence, and of the sentences into one vector for the text."""
    max_sentence: Count = 60
    """Maximum number of tokens of a sentence; longer ones are split into parts of this length."""
    embedding_dropout: Dropout = 0.3
    output_dropout: Dropout = 0.3
    """Dropout on the vector of the text."""


class TransformerClassifierConfig(TransformerEncoderSettings, NeuralClassifierSettings, kind="transformer"):
    """Embedding, Transformer encoder, attention pooling, linear layer."""


class CountedClassifierConfig(Settings):
    """A linear classifier of the log-count ratios of words and n-grams, fitted to all training texts at once."""

    max_ngram: Annotated[int, Ge(1), Le(1000)] = 2
    """Maximum number of words in an n-gram; 1 for single words only."""
    num_buckets: Count = 524288
    """Number of rows of the table into which n-grams of two and more words are hashed, but at most 16,777,216 divided by the
    number of labels. Each row keeps only one n-gram.
    """
    shrinkage: NotNegative = 0.1
    """Weight λ of the penalty that keeps the learned factors of the log-count ratios near 1, their value in naive Bayes. The
    larger λ is, the closer to 1 they stay.
    """


class CombinedClassifierConfig(ModelSettings, kind="combined"):
    """A linear classifier of counts and several recurrent classifiers, whose scores are averaged."""

    counted: CountedClassifierConfig = field(default_factory=CountedClassifierConfig)
    """The linear classifier of counts."""
    recurrent: RecurrentClassifierConfig = field(default_factory=RecurrentClassifierConfig)
    """The recurrent classifiers."""
    num_recurrent: Depth = 1
    """Number of recurrent classifiers, each with its own initial weights and its own loss. In the average of the scores, all
    recurrent classifiers together count a quarter, and the linear classifier counts three quarters.
    """


class PretrainedClassifierConfig(ModelSettings, kind="pretrained"):
    """A pretrained encoder, attention pooling, linear layer."""

    word_dropout: ClassVar[float] = 0.0
    embedding_dropout: ClassVar[float] = 0.0
    encoder: PretrainedEncoderConfig = field(default_factory=PretrainedEncoderConfig)
    """The encoder."""
    pooling: PoolingConfig = field(default_factory=MeanPoolingConfig)
    """Pooling of the encoder's states into one vector."""
    output_dropout: Dropout = 0.1
    """Dropout on the pooled vector."""
    contrastive: bool = False
    """If True, the encoder and the pooling learn only from the pairs of texts of a batch: pooled vectors become similar if the
    texts have the same label, and dissimilar otherwise. Only the output layer learns from single texts. More accurate, above
    all with few texts. Ignored if texts may have several labels.
    """


ClassifierConfig = (
    RecurrentClassifierConfig
    | BagClassifierConfig
    | HierarchicalClassifierConfig
    | TransformerClassifierConfig
    | CombinedClassifierConfig
    | PretrainedClassifierConfig
)
