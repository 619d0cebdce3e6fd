"""A recurrent translator: embeddings, encoder, bridge, decoder, output layer."""

from collections.abc import Collection
from dataclasses import replace

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.masks import check_boolean
from regard.errors import ConfigError
from regard.models.drafting import draft
from regard.models.recurrent.decoder import RecurrentDecoder, RecurrentState
from regard.models.recurrent.encoder import Bridge, RecurrentEncoder
from regard.models.seq2seq import AttentionMaps, LinearOutputModel, MapsWithLoss
from regard.reweight import ReweightBySite, for_site, for_steps
from regard.shapes import check_shape
from regard.text.symbols import PAD


class RecurrentTranslator(LinearOutputModel[RecurrentState]):
    """p(target | source), computed by a recurrent decoder that attends to the states of a recurrent encoder."""

    sites = ("cross",)

    def __init__(
        self,
        *,
        source_embedding: nn.Embedding,
        encoder: RecurrentEncoder,
        bridge: Bridge,
        target_embedding: nn.Embedding,
        decoder: RecurrentDecoder,
        output: nn.Linear,
        embedding_dropout: float = 0.0,
        readout_dropout: float = 0.0,
    ) -> None:
        """Compose the parts; if weights are shared, the caller must give parts that already share them.

        `embedding_dropout` applies to the embeddings of the target, and `readout_dropout` to the features of the decoder.
        """
        super().__init__()
        self.source_embedding, self.encoder, self.bridge = source_embedding, encoder, bridge
        self.target_embedding, self.decoder, self.output = target_embedding, decoder, output
        self.embedding_dropout = nn.Dropout(embedding_dropout)
        self.readout_dropout = nn.Dropout(readout_dropout)
        self.feeds_back = decoder.feeds_back

    def encode(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> RecurrentState:
        self.check_reweight(reweight)
        check_shape("source_mask", source_mask, "B S", check_shape("source", source, "B S"))
        check_boolean("source_mask", source_mask, "of shape (B, S)", meaning="not padding")
        states, finals = self.encoder(self.source_embedding(source), source_mask)
        hidden, cell = self.bridge(states, source_mask, finals)
        return RecurrentState(
            memory=self.decoder.attention.prepare(states, key_mask=source_mask),
            hidden=hidden[:, :, None],
            cell=None if cell is None else cell[:, :, None],
        )

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        state: RecurrentState,
        *,
        use_gold: Bool[Tensor, "B T"] | None = None,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B T D"], AttentionMaps]:
        self.check_reweight(reweight)
        check_shape("target_in", target_in, "B T", {"B": state.hidden.shape[1]})
        real = target_in != PAD  # computed before the model's own words replace gold words
        if use_gold is not None:
            target_in = draft(self, target_in, state, use_gold, reweight=reweight)
        embedded = self.embedding_dropout(self.target_embedding(target_in))
        features, weights, loss = self.decoder.decode(
            embedded, state, real=real, reweight=for_site(reweight, "cross"), need_weights="cross" in record
        )
        maps = {} if weights is None else {"cross": weights}
        return self.readout_dropout(features), maps if loss is None else MapsWithLoss(maps, loss)

    def step(
        self,
        tokens: Int[Tensor, "B N"],
        state: RecurrentState,
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B N V"], AttentionMaps, RecurrentState]:
        self.check_reweight(reweight)
        change = for_steps(for_site(reweight, "cross"), state.length)
        embedded = self.embedding_dropout(self.target_embedding(tokens))
        features, out, state = self.decoder.step(embedded, state, reweight=change, need_weights="cross" in record)
        state = replace(state, length=state.length + 1)
        logits = self.output(self.readout_dropout(features))
        return logits, {} if out.weights is None else {"cross": out.weights}, state


def check_tying(source: nn.Embedding, target: nn.Embedding, readout_size: int, tie: str) -> None:
    """Raise an error if embeddings cannot be shared as the setting `tie_embeddings` says.

    Raises:
        ConfigError: If the target embedding is also the output layer, and the readout has another width; or if all embeddings
            are shared, and the vocabularies differ in size.
    """
    if tie != "none" and readout_size != target.embedding_dim:
        raise ConfigError(
            f"tie_embeddings: {tie} uses the target embedding as output layer; its width is {target.embedding_dim}, but "
            f"the readout is {readout_size} wide: set model.embedding_size to {readout_size}, or tie_embeddings to none"
        )
    if tie == "all" and source.num_embeddings != target.num_embeddings:
        raise ConfigError(
            f"tie_embeddings: all needs one vocabulary for both sides, but the source has {source.num_embeddings} symbols and "
            f"the target {target.num_embeddings}: make the sizes equal (in a run: tokenizers.joint true), or set "
            "tie_embeddings to target"
        )
