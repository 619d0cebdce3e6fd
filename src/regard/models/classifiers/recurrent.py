"""Embedding → dropout → recurrent layers → attention pooling → dropout → linear."""

from collections.abc import Collection

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.build import build_pooling
from regard.config import EncoderConfig, RecurrentClassifierConfig
from regard.models.classifiers.words import WordDropout, build_embedding
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.text_classifier import Classified, Reweight, TextClassifier


class RecurrentClassifier(TextClassifier):
    """h = BiLSTM(embed(tokens)); logits = W Σ_s weight_s h_s + b, the weights and the states of real positions only.

    The recurrent layers read padding neither way (see `RecurrentLayer`), which is what packing is for elsewhere.

    Reference: Zhou et al. 2016, and Lin et al. 2017 with several heads, have this shape.
    """

    sites = ("pool",)

    def __init__(
        self, config: RecurrentClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0
    ) -> None:
        """Args:
        config: What it is made of.
        vocabulary_size: V.
        num_labels: C.
        embedding_size: E; 0 for the configured one.
        """
        super().__init__()
        width = embedding_size or config.embedding_size
        self.embedding = build_embedding(vocabulary_size, width)
        self.word_dropout = WordDropout(config.word_dropout)
        encoder = EncoderConfig(
            cell=config.cell,
            hidden_size=config.hidden_size,
            num_layers=config.num_layers,
            bidirectional=config.bidirectional,
            embedding_dropout=config.embedding_dropout,
            layer_dropout=config.layer_dropout,
        )
        self.encoder = RecurrentEncoder(encoder, embedding_size=width)
        self.pooling = build_pooling(config.pooling, size=self.encoder.size)
        self.output_dropout = nn.Dropout(config.output_dropout)
        self.output = nn.Linear(self.pooling.output_size, num_labels)

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """The input embeddings of the tokens, before any dropout."""
        embedded: Tensor = self.embedding(tokens)
        return embedded

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        """Score the labels of each text, as the contract has it."""
        if embedded is None:
            embedded = self.embed(self.word_dropout(tokens, mask))
        states, _ = self.encoder(embedded, mask)
        context, weights = self.pooling(states, key_mask=mask, reweight=reweight)
        logits = self.output(self.output_dropout(context))
        return Classified(logits, {"pool": weights} if "pool" in record else {})
