"""A Transformer that translates: embeddings, encoder, decoder, output layer."""

from collections.abc import Collection
from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.transformer import TransformerDecoder, TransformerEncoder, share_mask
from regard.models.policies import build_wait
from regard.models.seq2seq import AttentionMaps, Source
from regard.models.transformer.model import TransformerModel, TransformerState
from regard.models.transformer.norms import norm_weights
from regard.reweight import Sites


class TransformerTranslator(TransformerModel):
    """p(target | source), computed by a decoder that attends to its earlier words and, in every layer, to the encoder's states.

    Sites: `encoder.i` (B,H,S,S), `decoder.i` (B,H,T,T) and `cross.i` (B,H,T,S), or (B,T,S) without heads, for each layer i,
    from 0. `cross` (B,T,S) is the attention of one decoder layer to the source: one of its heads, or the mean of its heads. The
    default is the mean of the heads of the last layer but one, whose weights are closest to an alignment (Garg et al. 2019,
    section 4.1); a decoder with one layer uses this layer. `norm.i` (B,T,S) exists if layer i attends to the source with a
    `MultiHead`: it is this attention, weighted by the norms of the values (see `norms.norm_weights`). Row t belongs to the step
    that predicts word t. In `decoder.i`, column t belongs to the word that this step reads.

    Reference: Vaswani et al. 2017. Embeddings are multiplied by √D (section 3.4), and can be tied to the output layer (Press
    and Wolf 2017).
    """

    decoder: TransformerDecoder

    def __init__(
        self,
        *,
        source_embedding: nn.Embedding,
        target_embedding: nn.Embedding,
        source_positions: nn.Module,
        target_positions: nn.Module,
        encoder: TransformerEncoder,
        decoder: TransformerDecoder,
        output: nn.Linear,
        embedding_dropout: float = 0.0,
        alignment_layer: int | None = None,
        alignment_head: int | None = None,
        wait_k: int = 0,
    ) -> None:
        """Compose the parts; if weights are shared, the caller must give parts that already share them.

        Args:
            source_embedding: Source embedding of width D.
            target_embedding: Target embedding of width D.
            source_positions: Module that adds positions to the source; see `regard.layers.positions`.
            target_positions: Module that adds positions to the target.
            encoder: Encoder of width D.
            decoder: Decoder of width D.
            output: Linear map from D to the target's words.
            embedding_dropout: Dropout on the sum of embeddings and positions.
            alignment_layer: Number of the decoder layer whose attention is the site `cross`, from 0; None for the last but one.
            alignment_head: Head of this layer, from 0; None for the mean of its heads.
            wait_k: Number k of the policy `regard.models.policies.WaitK`, which needs a causal encoder; 0 for none.

        Raises:
            ConfigError: If widths differ, there is no such layer or head, or an attention does not suit `wait_k`.
        """
        super().__init__()
        embeddings = {"source_embedding": source_embedding.embedding_dim, "target_embedding": target_embedding.embedding_dim}
        self.check_widths(**embeddings, encoder=encoder.size, decoder=decoder.size, output=output.in_features)
        layers = len(decoder.layers)
        across = [layer.cross_attention for layer in decoder.layers]
        alignment = max(0, layers - 2) if alignment_layer is None else alignment_layer
        if not 0 <= alignment < layers:
            raise ConfigError(
                f"TransformerTranslator(alignment_layer={alignment}): the decoder has {layers} layers, expected from 0 to "
                f"{layers - 1}"
            )
        heads = getattr(across[alignment], "num_heads", 0)
        if alignment_head is not None and not 0 <= alignment_head < heads:
            raise ConfigError(
                f"TransformerTranslator(alignment_head={alignment_head}): layer {alignment} attends to the source with {heads} "
                f"heads, expected from 0 to {heads - 1}"
            )
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.source_positions, self.target_positions = source_positions, target_positions
        self.encoder, self.decoder, self.output = encoder, decoder, output
        self.embedding_dropout = Dropout(embedding_dropout)
        self.alignment_layer, self.alignment_head = alignment, alignment_head
        self.policy = build_wait(wait_k, across)
        if wait_k and not all(getattr(layer.attention, "causal", False) for layer in encoder.layers):
            raise ConfigError(
                f"TransformerTranslator(wait_k={wait_k}): the encoder reads later words; build its attention with causal=True"
            )
        self.scale = encoder.size**0.5
        self.derived = tuple(f"norm.{number}" for number, attention in enumerate(across) if type(attention) is MultiHead)
        self.sites = (
            "cross",
            *(f"cross.{number}" for number in range(layers)),
            *(f"decoder.{number}" for number in range(layers)),
            *encoder.sites,
            *self.derived,
        )

    def read(self, source: Source, source_mask: Bool[Tensor, "B S"], sites: Sites) -> TransformerState:
        embedded = self.embedding_dropout(self.source_positions(self.source_embedding(source) * self.scale))
        across = (layer.cross_attention for layer in self.decoder.layers)
        mask = share_mask(source_mask, [*(layer.attention for layer in self.encoder.layers), *across], embedded)
        states = self.encoder(embedded, mask, sites)
        return TransformerState(self.decoder.prepare(states, mask), sites.maps)

    def embed(self, tokens: Int[Tensor, "B T"], start: int) -> Float[Tensor, "B T D"]:
        return self.embedding_dropout(self.target_positions(self.target_embedding(tokens) * self.scale, start))

    def sources(self, record: Collection[str]) -> Collection[str]:
        """Return the sites in `record`, and those from which `cross` and `norm.i` are computed."""
        layers = {f"cross.{self.alignment_layer}" for site in record if site == "cross"}
        return {*record, *layers, *(site.replace("norm", "cross") for site in record if site in self.derived)}

    def maps(self, weights: AttentionMaps, state: TransformerState, record: Collection[str]) -> AttentionMaps:
        maps = {**weights, **state.encoder}
        if "cross" in record:
            cross, head = weights[f"cross.{self.alignment_layer}"], self.alignment_head
            if cross.ndim == 4:  # without heads, the weights are already (B,T,S)
                cross = cross.mean(1) if head is None else cross[:, head]
            maps["cross"] = cross
        for site in set(record).intersection(self.derived):
            number = int(site.removeprefix("norm."))
            attention, memory = self.decoder.layers[number].cross_attention, state.memories[number]
            maps[site] = norm_weights(cast(MultiHead, attention), cast(HeadMemory, memory), weights[f"cross.{number}"])
        return {site: maps[site] for site in record if site in maps}
