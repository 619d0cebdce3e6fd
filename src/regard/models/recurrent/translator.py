"""A recurrent translator: embeddings, encoder, bridge, decoder, output layer."""

from collections.abc import Collection
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.policies import Policy, WaitK
from regard.models.recurrent.decoder import RecurrentDecoder, RecurrentState
from regard.models.recurrent.encoder import Bridge
from regard.models.seq2seq import AttentionMaps, MapsWithLoss, Seq2Seq, Source
from regard.reweight import ReweightBySite, Sites, for_site, for_steps
from regard.shapes import check_shape
from regard.text.symbols import PAD


class RecurrentTranslator(Seq2Seq[RecurrentState]):
    """p(target | source), computed by a recurrent decoder that attends to the states of an encoder.

    Sites: `cross` (B,T,S), or (B,H,T,S) with heads, and `encoder.i` (B,H,S,S) for each layer i of a pretrained encoder.
    """

    def __init__(
        self,
        *,
        source_embedding: nn.Module,
        encoder: nn.Module,
        bridge: Bridge,
        target_embedding: nn.Embedding,
        decoder: RecurrentDecoder,
        output: nn.Linear,
        embedding_dropout: float = 0.0,
        readout_dropout: float = 0.0,
        policy: Policy | None = None,
    ) -> None:
        """Compose the parts; if weights are shared, the caller must give parts that already share them.

        `embedding_dropout` applies to the embeddings of the target, and `readout_dropout` to the features of the decoder. A
        `policy` other than None needs an encoder that reads in one direction, because later words must not change its states.
        """
        super().__init__()
        self.source_embedding, self.encoder, self.bridge = source_embedding, encoder, bridge
        self.target_embedding, self.decoder, self.output = target_embedding, decoder, output
        self.embedding_dropout = nn.Dropout(embedding_dropout)
        self.readout_dropout = nn.Dropout(readout_dropout)
        self.feeds_back = decoder.feeds_back
        self.sites = ("cross", *getattr(encoder, "sites", ()))
        self.policy = policy
        decoder.policy = policy if isinstance(policy, WaitK) else None

    def read(self, source: Source, source_mask: Bool[Tensor, "B S"], sites: Sites) -> RecurrentState:
        states, finals = self.encoder(self.source_embedding(source), source_mask, sites)
        first = source_mask
        if isinstance(self.policy, WaitK):  # the first state may depend only on words that the first step may read
            first = source_mask & self.policy.mask(0, 1, source.shape[1], source.device)
            finals = [(states[torch.arange(len(states), device=states.device), first.sum(1) - 1], None)]
        hidden, cell = self.bridge(states, first, finals)
        return RecurrentState(
            memory=self.decoder.attention.prepare(states, key_mask=source_mask),
            hidden=hidden[:, :, None],
            cell=None if cell is None else cell[:, :, None],
            encoder=sites.maps,
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
            target_in = self.draft(target_in, state, use_gold, reweight)
        embedded = self.embedding_dropout(self.target_embedding(target_in))
        features, weights, loss = self.decoder.decode(
            embedded, state, real=real, reweight=for_site(reweight, "cross"), need_weights="cross" in record
        )
        maps = _maps(weights, state, record)
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
        return logits, _maps(out.weights, state, record), state


def _maps(cross: Tensor | None, state: RecurrentState, record: Collection[str]) -> AttentionMaps:
    found = state.encoder if cross is None else {"cross": cross, **state.encoder}
    return {site: weights for site, weights in found.items() if site in record}
