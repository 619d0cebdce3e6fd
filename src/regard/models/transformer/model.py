"""The base of Transformers that predict words: the state of decoding, and reading a target at once or word by word."""

from abc import abstractmethod
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.base import Memory
from regard.errors import ConfigError
from regard.layers.cache import DecoderCache
from regard.layers.transformer import TransformerDecoder
from regard.models.policies import WaitK
from regard.models.seq2seq import AttentionMaps, Seq2Seq
from regard.reweight import ReweightBySite, Sites


@dataclass(frozen=True)
class TransformerState:
    """The source, and the words so far of N hypotheses of each sentence."""

    memories: tuple[Memory, ...] = ()
    """The source, prepared once for each layer; shared by all hypotheses of a sentence. Empty in a language model."""
    encoder: AttentionMaps = field(default_factory=dict)
    """The attention weights recorded in the encoder, (B,H,S,S), by site."""
    cache: DecoderCache | None = None
    """The words so far; None before the first word."""

    @property
    def length(self) -> int:
        """The number of words read so far."""
        return 0 if self.cache is None else self.cache.length

    def select(self, beam: Int[Tensor, "B N"]) -> "TransformerState":
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        return self if self.cache is None else replace(self, cache=self.cache.select(beam))

    def reading(self, source: "TransformerState") -> "TransformerState":
        """Return this state with a longer source, whose result of `encode` is `source`."""
        return replace(source, cache=self.cache)

    def keep(self, rows: Int[Tensor, " M"]) -> "TransformerState":
        """Return the state of the sentences with the indices `rows` only, in this order."""
        return TransformerState(
            memories=tuple(memory.select(rows) for memory in self.memories),
            encoder={site: weights[rows] for site, weights in self.encoder.items()},
            cache=None if self.cache is None else self.cache.keep(rows),
        )


class TransformerModel(Seq2Seq[TransformerState]):
    """Base of Transformers that predict words: translators and language models."""

    feeds_back = False
    decoder: TransformerDecoder

    def check_widths(self, **widths: int) -> None:
        """Raise an error if the parts of the model differ in width."""
        if len(set(widths.values())) > 1:
            shown = ", ".join(f"{name} {width}" for name, width in widths.items())
            raise ConfigError(f"{type(self).__name__}: all parts must have the same width, got {shown}")

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        state: TransformerState,
        *,
        use_gold: Bool[Tensor, "B T"] | None = None,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B T D"], AttentionMaps]:
        self.check_reweight(reweight)
        if use_gold is not None:
            target_in = self.draft(target_in, state, use_gold, reweight)
        sites = self.sites_of(state, record, reweight, target_in.shape[1])
        features = self.decoder(self.embed(target_in, 0), state.memories, sites)
        return features, self.maps(sites.maps, state, record)

    def step(
        self,
        tokens: Int[Tensor, "B N"],
        state: TransformerState,
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B N V"], AttentionMaps, TransformerState]:
        self.check_reweight(reweight)
        sites = self.sites_of(state, record, reweight, 1)
        # On a CPU, packed products use autocast's type; casting all other numbers too would take longer than it saves.
        exact = self.packed_whole and tokens.device.type == "cpu"
        with torch.autocast("cpu", enabled=False) if exact and torch.is_autocast_enabled("cpu") else nullcontext():
            # All hypotheses are at the same position, so each word is embedded as a sequence of length 1.
            embedded = self.embed(tokens.flatten()[:, None], state.length).view(*tokens.shape, -1)
            if exact:
                embedded = embedded.to(torch.promote_types(embedded.dtype, torch.float32))
            features, cache = self.decoder.step(embedded, state.memories, state.cache, sites)
            state = replace(state, cache=cache)
            return self.output(features), self.maps(sites.maps, state, record), state

    def sites_of(
        self, state: TransformerState, record: Collection[str], reweight: ReweightBySite | None, num_steps: int
    ) -> Sites:
        """Return the `Sites` of the next steps, with the mask of source words that they may read."""
        mask = None
        if isinstance(self.policy, WaitK):
            value = state.memories[0].value
            mask = self.policy.mask(state.length, num_steps, value.shape[-2], value.device)
        return Sites(self.sources(record), reweight, state.length, num_steps, mask)

    @abstractmethod
    def embed(self, tokens: Int[Tensor, "B T"], start: int) -> Float[Tensor, "B T D"]:
        """Return the embeddings of words of the target with their positions; the first word is at position `start`."""

    def sources(self, record: Collection[str]) -> Collection[str]:
        """Return the sites whose weights are needed for the weights of the sites in `record`."""
        return record

    def maps(self, weights: AttentionMaps, state: TransformerState, record: Collection[str]) -> AttentionMaps:
        """Return the weights of the sites in `record`, from those of the decoder."""
        return {site: weights[site] for site in record if site in weights}
