"""A Transformer encoder with attention pooling."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.config import TransformerClassifierConfig
from regard.config.classifier import TransformerEncoderSettings
from regard.layers.positions import build_positions
from regard.models.classifiers.pooled import PooledClassifier, TextEncoder, build_embedding
from regard.models.transformer.build import build_encoder
from regard.reweight import Sites


class WordTransformer(TextEncoder):
    """h = encoder(s·M embed(tokens) + positions), where M maps pretrained word vectors, or nothing.

    Reference: Vaswani et al. 2017, sections 3.1 and 3.4 (s = √D), for the encoder.
    """

    def __init__(self, config: TransformerEncoderSettings, *, vocabulary_size: int, embedding_size: int = 0) -> None:
        super().__init__()
        self.size = size = config.embedding_size
        mapping: nn.Module = nn.Identity()
        if embedding_size:
            # Values of word vectors are about 0.4; a map with this standard deviation makes them about as large as positions.
            mapping = nn.Linear(embedding_size, size, bias=False)
            nn.init.normal_(mapping.weight, std=2 * embedding_size**-0.5)
        self.build_dropouts(config)
        self.embedding, self.mapping = build_embedding(vocabulary_size, embedding_size or size), mapping
        self.scale = 1.0 if embedding_size else size**0.5
        self.positions = build_positions(config.positions, size)
        self.encoder = build_encoder(config, num_layers=config.num_layers)
        self.sites = (*self.sites, *(f"encoder.{number}" for number in range(config.num_layers)))

    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the encoder; the weights of the sites `encoder.0`, `encoder.1`, … are (B,H,S,S)."""
        return self.encoder(self.embedding_dropout(self.positions(self.scale * self.mapping(embedded))), mask, sites)


class TransformerClassifier(WordTransformer, PooledClassifier):
    """logits = W pool(h) + b, with the states h of a `WordTransformer`."""

    def __init__(
        self, config: TransformerClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0
    ) -> None:
        super().__init__(config, vocabulary_size=vocabulary_size, embedding_size=embedding_size)
        self.build_head(config, num_labels)
