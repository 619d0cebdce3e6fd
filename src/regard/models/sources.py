"""Translators with a pretrained encoder, in place of the source's embedding and encoder.

    s_1 … s_S = dropout(W encoder(x_1 … x_S) + b)

The states s are as wide as the decoder's, which attends to them. The source has the start and end symbols of the encoder.
"""

from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from regard.config import PretrainedSourceConfig
from regard.layers.dropout import Dropout
from regard.layers.recurrent import State
from regard.models.pretrained import PretrainedEncoder
from regard.models.seq2seq import Source
from regard.models.transformer.model import TransformerState
from regard.models.transformer.translator import TransformerTranslator
from regard.reweight import Sites


class PretrainedSource(nn.Module):
    """A pretrained encoder with a linear map of its states.

    Args:
        encoder: The encoder, with the settings of a source.
        size: D, width of the mapped states.
    """

    def __init__(self, encoder: PretrainedEncoder, size: int) -> None:
        super().__init__()
        assert isinstance(encoder.config, PretrainedSourceConfig)
        self.encoder, self.sites = encoder, encoder.sites
        self.map, self.size = nn.Linear(encoder.size, size), size
        self.output_dropout = Dropout(encoder.config.output_dropout)

    def forward(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the mapped states; see `PretrainedEncoder`."""
        return self.output_dropout(self.map(self.encoder(embedded, mask, sites)))


class RecurrentSource(PretrainedSource):
    """A pretrained encoder for recurrent decoders, which also returns a last state: the mean of the states."""

    def forward(  # type: ignore[override]
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites
    ) -> tuple[Float[Tensor, "B S D"], list[State]]:
        """Return the states, and their mean without padding as the last state."""
        states = super().forward(embedded, mask, sites)
        mean = states.masked_fill(~mask[..., None], 0).sum(1) / mask.sum(1, keepdim=True)
        return states, [(mean, None)]


class PretrainedEmbedding(nn.Module):
    """The embeddings of an encoder as a separate module, so that hooks can replace its output."""

    def __init__(self, encoder: PretrainedSource) -> None:
        super().__init__()
        self._encoder = (encoder,)  # in a tuple, so that it is not a submodule: the weights belong to the encoder
        self.embedding_dim = encoder.size
        """Width of the states that the encoder returns for the embeddings."""

    def forward(self, source: Integer[Tensor, "B S *P"]) -> Float[Tensor, "B S E"]:
        """Return the embeddings of the source, before positions are added."""
        return self._encoder[0].encoder.embed(source)


class PretrainedTransformer(TransformerTranslator):
    """A Transformer's decoder that attends to the states of a pretrained encoder."""

    encoder: PretrainedSource  # type: ignore[assignment]

    def read(self, source: Source, source_mask: Bool[Tensor, "B S"], sites: Sites) -> TransformerState:
        states = self.encoder(self.source_embedding(source), source_mask, sites)
        return TransformerState(self.decoder.prepare(states, source_mask), sites.maps)
