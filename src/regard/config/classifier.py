"""Settings of the model of a text classifier."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.model import Cell, LayerSettings
from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.pooling import AdditivePoolingConfig, LinearPoolingConfig, PoolingConfig
from regard.config.settings import ModelSettings, Settings


@dataclass(frozen=True, kw_only=True)
class NeuralClassifierSettings(ModelSettings):
    """Settings that classifiers with an embedding and a pooling have."""

    kind: str
    embedding_size: int = 100
    """Width of the embeddings; with `data.vectors`, the vectors' own width counts."""
    pooling: PoolingConfig = field(default_factory=LinearPoolingConfig)
    """How the states of the words become one vector."""
    word_dropout: float = 0.0
    """In training, this part of the words is replaced by the unknown symbol."""
    embedding_dropout: float = 0.5
    """Dropout on the embeddings."""
    output_dropout: float = 0.5
    """Dropout on the pooled state."""
    freeze: tuple[str, ...] = ()
    """Parts that training doesn't change: `embeddings`, modules such as `encoder`, or prefixes of parameter names."""


@dataclass(frozen=True, kw_only=True)
class RecurrentClassifierConfig(NeuralClassifierSettings):
    """Embedding, recurrent layers over the words, attention pooling, linear."""

    kind: Literal["recurrent"] = "recurrent"
    cell: Cell = "lstm"
    """Kind of the recurrent cells."""
    hidden_size: int = 128
    """Width of each direction."""
    num_layers: int = 1
    """Number of recurrent layers."""
    bidirectional: bool = True
    """Whether a second direction reads the text from its end."""
    layer_dropout: float = 0.0
    """Dropout between recurrent layers."""


@dataclass(frozen=True, kw_only=True)
class BagClassifierConfig(NeuralClassifierSettings):
    """Embeddings of words and of their n-grams, attention pooling, linear: no order beyond the n-grams, strong and quick."""

    kind: Literal["bag"] = "bag"
    max_ngram: int = 2
    """Words in the longest n-grams; 1 for words alone."""
    num_buckets: int = 65536
    """Rows of the table that n-grams of two and more words are hashed into."""
    count_smoothing: float = 1.0
    """Training starts from the words' and n-grams' log-count ratios, smoothed by so much (Wang & Manning 2012); 0 starts from
    random vectors, and so does a model with `data.vectors`."""
    output_dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class HierarchicalClassifierConfig(NeuralClassifierSettings):
    """Words make sentences, sentences make documents, with attention at both steps (Yang et al. 2016)."""

    kind: Literal["hierarchical"] = "hierarchical"
    cell: Cell = "gru"
    """Kind of the recurrent cells."""
    hidden_size: int = 64
    """Width of each direction, of words and of sentences."""
    pooling: PoolingConfig = field(default_factory=AdditivePoolingConfig)
    """Of words into sentences, and of sentences into the document."""
    max_sentence: int = 60
    """Tokens of a sentence; a longer one is cut into pieces of this length."""
    embedding_dropout: float = 0.3
    output_dropout: float = 0.3
    """Dropout on the document's state."""


@dataclass(frozen=True, kw_only=True)
class TransformerClassifierConfig(LayerSettings, NeuralClassifierSettings):
    """Embedding, a Transformer's encoder, attention pooling, linear."""

    kind: Literal["transformer"] = "transformer"
    embedding_size: int = 128
    """Width of the model, residual stream included; with `data.vectors`, these are mapped to it."""
    num_layers: int = 2
    """Number of layers."""
    feed_forward_size: int = 256
    feed_forward: Literal["relu", "gelu", "swiglu"] = "gelu"
    norm_first: bool = True
    """Norms before each part (pre-norm) in place of after it (post-norm)."""
    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """From scores to weights in self-attention; that of the pooling is `pooling.normalizer`."""
    embedding_dropout: float = 0.1
    layer_dropout: float = 0.1
    """Dropout on what each part adds to the residual stream, and inside the feed-forward layer."""
    output_dropout: float = 0.1


@dataclass(frozen=True, kw_only=True)
class CountedClassifierConfig(Settings):
    """Log-count ratios of words and n-grams, weighed by a linear classifier that is fitted to all training texts at once."""

    max_ngram: int = 2
    """Words in the longest n-grams; 1 for words alone."""
    num_buckets: int = 524288
    """Rows of the table that n-grams of two and more words are hashed into; one n-gram each."""
    shrinkage: float = 0.1
    """λ of the penalty on gains that differ from 1; the larger, the nearer the classifier stays to naive Bayes."""


@dataclass(frozen=True, kw_only=True)
class CombinedClassifierConfig(ModelSettings):
    """A linear classifier of counts and recurrent classifiers side by side, and their scores averaged."""

    kind: Literal["combined"] = "combined"
    counted: CountedClassifierConfig = field(default_factory=CountedClassifierConfig)
    """The linear classifier of counts."""
    recurrent: RecurrentClassifierConfig = field(default_factory=RecurrentClassifierConfig)
    """The recurrent classifiers."""
    num_recurrent: int = 1
    """How many recurrent classifiers there are, which differ in where they start and are trained each by its own loss. Together
    they make a quarter of the scores."""
    freeze: tuple[str, ...] = ()
    """Parts that training doesn't change: `embeddings`, modules such as `encoder`, or prefixes of parameter names."""


ClassifierConfig = (
    RecurrentClassifierConfig
    | BagClassifierConfig
    | HierarchicalClassifierConfig
    | TransformerClassifierConfig
    | CombinedClassifierConfig
)
