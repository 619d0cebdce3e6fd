"""A Transformer that continues a text: embedding, causal layers, output layer."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.transformer import TransformerDecoder
from regard.models.seq2seq import Source
from regard.models.transformer.model import TransformerModel, TransformerState
from regard.reweight import ReweightBySite, Sites


class TransformerLanguageModel(TransformerModel):
    """p(text) = ∏_t p(word t | earlier words), computed by a decoder that attends to the earlier words.

    It is a `Seq2Seq` that ignores the words of its source; only the number of source rows matters, as the number of texts. So
    the code that searches, samples, trains and scores translators also works for language models.

    Sites: `decoder.i` (B,H,T,T) for each layer i, from 0. Row t belongs to the step that predicts word t. This step reads word
    t − 1, or the start symbol for t = 0, and column t belongs to the word that it reads.

    Reference: Radford et al. 2018. Embeddings are multiplied by √D, and can be tied to the output layer (Press and Wolf 2017).
    """

    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        positions: nn.Module,
        decoder: TransformerDecoder,
        output: nn.Linear,
        embedding_dropout: float = 0.0,
    ) -> None:
        """Compose the parts; if weights are shared, the caller must give parts that already share them.

        Args:
            embedding: Embedding of width D.
            positions: Module that adds positions; see `regard.layers.positions`.
            decoder: Decoder of width D.
            output: Linear map from D to the words.
            embedding_dropout: Dropout on the sum of embeddings and positions.

        Raises:
            ConfigError: If widths differ.
        """
        super().__init__()
        self.check_widths(embedding=embedding.embedding_dim, decoder=decoder.size, output=output.in_features)
        self.embedding, self.positions, self.decoder, self.output = embedding, positions, decoder, output
        self.embedding_dropout = Dropout(embedding_dropout)
        self.scale = decoder.size**0.5
        self.sites = tuple(f"decoder.{number}" for number in range(len(decoder.layers)))

    def forward(  # type: ignore[override]  # a language model has no source
        self, tokens: Int[Tensor, "B T"], *, reweight: ReweightBySite | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return the scores of the next word at each position.

        Args:
            tokens: Ids of the start symbol, then of the words of the text.
            reweight: Functions that replace weights, by site; see `regard.reweight`.
        """
        return super().forward(tokens[:, :1], tokens, reweight=reweight)

    def read(self, source: Source, source_mask: Bool[Tensor, "B S"], sites: Sites) -> TransformerState:
        return TransformerState()

    def embed(self, tokens: Int[Tensor, "B T"], start: int) -> Float[Tensor, "B T D"]:
        return self.embedding_dropout(self.positions(self.embedding(tokens) * self.scale, start))
