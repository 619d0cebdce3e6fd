"""A Transformer encoder with attention pooling."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.pooling import Pooling
from regard.config import TransformerClassifierConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.positions import build_positions
from regard.layers.transformer import TransformerEncoder
from regard.models.classifiers.pooled import PooledClassifier, WordDropout, build_embedding
from regard.models.transformer.build import build_encoder
from regard.reweight import Sites


class TransformerClassifier(PooledClassifier):
    """logits = W pool(encoder(s·M embed(tokens) + positions)) + b, where M is the identity without pretrained word vectors.

    Reference: Vaswani et al. 2017, sections 3.1 and 3.4 (s = √D), for the encoder.
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        *,
        mapping: nn.Module,
        positions: nn.Module,
        encoder: TransformerEncoder,
        pooling: Pooling,
        num_labels: int,
        scale: float = 1.0,
        word_dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pooling.size != encoder.size:
            raise ConfigError(
                f"TransformerClassifier: the pooling reads states of width {pooling.size}, but the encoder's states have width "
                f"{encoder.size}: make both the same"
            )
        self.embedding, self.mapping, self.positions = embedding, mapping, positions
        self.encoder, self.pooling, self.scale = encoder, pooling, scale
        self.word_dropout = WordDropout(word_dropout)
        self.embedding_dropout, self.output_dropout = Dropout(embedding_dropout), Dropout(output_dropout)
        self.output = nn.Linear(pooling.output_size, num_labels)
        self.sites = ("pool", *(f"encoder.{number}" for number in range(len(encoder.layers))))

    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the encoder; the weights of the sites `encoder.0`, `encoder.1`, … are (B,H,S,S)."""
        return self.encoder(self.embedding_dropout(self.positions(self.scale * self.mapping(embedded))), mask, sites)


def build_transformer_classifier(
    config: TransformerClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0
) -> TransformerClassifier:
    """Build the model, with initial weights from PyTorch's random generator.

    A linear map converts pretrained word vectors of width `embedding_size`, unless it is 0, to the model's width.
    """
    size = config.embedding_size
    mapping: nn.Module = nn.Identity()
    if embedding_size:
        # Values of word vectors are about 0.4, so a map with this standard deviation makes them about as large as positions.
        mapping = nn.Linear(embedding_size, size, bias=False)
        nn.init.normal_(mapping.weight, std=2 * embedding_size**-0.5)
    return TransformerClassifier(
        build_embedding(vocabulary_size, embedding_size or size),
        mapping=mapping,
        scale=1.0 if embedding_size else size**0.5,
        positions=build_positions(config.positions, size),
        encoder=build_encoder(config, num_layers=config.num_layers),
        pooling=config.pooling.build(size=size),
        num_labels=num_labels,
        word_dropout=config.word_dropout,
        embedding_dropout=config.embedding_dropout,
        output_dropout=config.output_dropout,
    )
