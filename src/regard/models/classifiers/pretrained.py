"""A pretrained encoder with attention pooling."""

from collections.abc import Iterable, Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import PretrainedClassifierConfig
from regard.models.classifiers.pooled import PooledClassifier
from regard.models.pretrained import PretrainedEncoder
from regard.models.text_classifier import Example
from regard.reweight import Sites


class PretrainedClassifier(PooledClassifier):
    """logits = W pool(encoder(tokens)) + b, with an encoder that others have trained.

    The tokens include the start and the end symbol of the encoder, which the pooling also reads.
    """

    def __init__(self, config: PretrainedClassifierConfig, *, num_labels: int, encoder_ids: Sequence[int]) -> None:
        super().__init__()
        self.encoder = PretrainedEncoder(config.encoder, encoder_ids)
        self.size = self.encoder.size
        self.build_dropouts(config)
        self.build_head(config, num_labels)
        self.sites = ("pool", *self.encoder.sites)

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the encoder's embeddings of the tokens."""
        return self.encoder.embed(tokens)

    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the encoder; the weights of the sites `encoder.0`, `encoder.1`, … are (B,H,S,S)."""
        return self.encoder(embedded, mask, sites)

    def prime(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Copy the pretrained weights into an encoder that training changes; others have them already."""
        if self.encoder.stored:
            self.encoder.load()
