"""A translator that can copy source words: a pointer-generator around any translator with attention to its source."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.copying import copy_log_probabilities
from regard.models.seq2seq import AttentionMaps, DecoderState, MapsWithLoss, Seq2Seq, Source
from regard.records.data import P_GEN
from regard.reweight import ReweightBySite, Sites
from regard.text.symbols import UNKNOWN


@dataclass(frozen=True)
class CopyingState:
    """The state of the translator, and the ids of the source words that can be copied."""

    inner: DecoderState
    ids: Int[Tensor, "B S"]
    """Id of each source word in the extended vocabulary; shared by all hypotheses of a sentence."""

    def select(self, beam: Int[Tensor, "B N"]) -> "CopyingState":
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        return CopyingState(self.inner.select(beam), self.ids)

    def keep(self, rows: Int[Tensor, " M"]) -> "CopyingState":
        """Return the state of the sentences with the indices `rows` only, in this order."""
        return CopyingState(self.inner.keep(rows), self.ids[rows])


class CopyingModel(Seq2Seq[CopyingState]):
    """p(w) = p_gen · P_vocab(w) + (1 − p_gen) · Σ_{s: x_s = w} a_s, with the attention weights a of the site `cross`.

    The source (B,S,2) has two ids for each word: the one that the encoder reads, and the one in the extended vocabulary of this
    source (`regard.layers.copying`; 0 if the word cannot be copied). Scores of next words are log probabilities of the extended
    vocabulary, V + S words. A copied word is fed to the next step as the unknown symbol. A step generates a word with the
    probability

        p_gen = σ(u · f_t + v · y_{t−1} + b)

    with the features f_t, from which the output layer predicts words, and the embedding y_{t−1} of the word that the step
    reads. Weights of several heads are averaged; a Transformer copies by the layer and the head of its site `cross`.

    Args:
        model: Translator with attention to the source. Its output layer and its dropout on features move to the new model.

    Raises:
        ConfigError: If the translator has no site `cross`.

    Reference: See, Liu and Manning 2017, Get To The Point: Summarization with Pointer-Generator Networks, eq. 8 and 9.
    Differs from the paper: in eq. 8, the features stand for the decoder's state and the context, from which they are computed.
        With the readout `concat`, [state; context], the equation is that of the paper.
    """

    source_axes = "B S P"
    copies = True
    measures = (P_GEN,)

    def __init__(self, model: Seq2Seq[Any]) -> None:
        super().__init__()
        if "cross" not in model.sites:
            raise ConfigError(
                f"a {type(model).__name__} has no attention to its source (no site 'cross'), so it cannot copy words"
            )
        self.output, self.translator = model.output, model
        self.num_words, self.width = self.output.out_features, self.output.in_features
        self.gate = nn.Linear(self.width + cast(nn.Embedding, model.target_embedding).embedding_dim, 1)
        self.dropout = getattr(model, "readout_dropout", nn.Identity())
        for name in ("output", "readout_dropout"):  # the translator then returns its features
            model.add_module(name, nn.Identity())
        self.sites, self.derived = model.sites, model.derived
        self.feeds_back, self.alignment_step = model.feeds_back, model.alignment_step

    def read(self, source: Source, source_mask: Bool[Tensor, "B S"], sites: Sites) -> CopyingState:
        return CopyingState(self.translator.read(source[..., 0], source_mask, sites), source[..., 1])

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        state: CopyingState,
        *,
        use_gold: Bool[Tensor, "B T"] | None = None,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B T D"], AttentionMaps]:
        self.check_reweight(reweight)
        if use_gold is not None:
            target_in = self.draft(target_in, state, use_gold, reweight)
        words = self._known(target_in)
        features, maps = self.translator.decode(words, state.inner, record=self._sources(record), reweight=reweight)
        features, recorded = self._extend(features, words, maps, state, record)
        return features, MapsWithLoss(recorded, maps.loss) if isinstance(maps, MapsWithLoss) else recorded

    def logits(self, features: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch W"]:
        """Return log p of the extended vocabulary, from the features that `_extend` returns."""
        size = (features.shape[-1] - self.width - 1) // 2
        own, gate, weights, ids = features.split([self.width, 1, size, size], -1)
        return copy_log_probabilities(self.output(own.to(self.output.weight.dtype)), gate, weights, ids.long())

    def step(
        self,
        tokens: Int[Tensor, "B N"],
        state: CopyingState,
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B N W"], AttentionMaps, CopyingState]:
        self.check_reweight(reweight)
        words = self._known(tokens)
        features, maps, inner = self.translator.step(words, state.inner, record=self._sources(record), reweight=reweight)
        features, recorded = self._extend(features, words, maps, state, record)
        return self.logits(features), recorded, CopyingState(inner, state.ids)

    def _known(self, tokens: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
        """Return the words with the unknown symbol in place of copied ones."""
        return tokens.masked_fill(tokens >= self.num_words, UNKNOWN)

    def _sources(self, record: Collection[str]) -> set[str]:
        return {*record, "cross"} - {P_GEN}

    def _extend(
        self, features: Tensor, words: Tensor, maps: AttentionMaps, state: CopyingState, record: Collection[str]
    ) -> tuple[Tensor, AttentionMaps]:
        """Return [features; g; weights; ids of the source words], and the weights that are recorded, among them p_gen."""
        # Losses and scores take rows of features in any order, so each row has all that its distribution depends on. In
        # float32, ids are exact.
        dtype = torch.promote_types(features.dtype, torch.float32)
        weights = maps["cross"] if maps["cross"].ndim == 3 else maps["cross"].mean(1)
        embedded = cast(nn.Embedding, self.translator.target_embedding)(words).to(features.dtype)
        gate = self.gate(torch.cat((features, embedded), -1))
        ids = state.ids[:, None].expand(-1, words.shape[1], -1)
        extended = torch.cat([one.to(dtype) for one in (self.dropout(features), gate, weights, ids)], -1)
        recorded = {site: maps[site] for site in record if site in maps}
        return extended, recorded | ({P_GEN: gate.float().sigmoid()} if P_GEN in record else {})
