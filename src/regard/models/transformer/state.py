"""The decoding state of a Transformer for B sentences with N hypotheses each."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol, Self

from jaxtyping import Int
from torch import Tensor

from regard.attention.base import Memory
from regard.layers.transformer import DecoderRequest
from regard.models.seq2seq import AttentionMaps
from regard.reweight import ReweightBySite, for_layers, for_steps


class Cache(Protocol):
    """The keys and values of the words so far, in the form that the decoder's `step` returns."""

    @property
    def length(self) -> int:
        """The number of words so far."""
        ...

    def select(self, beam: Int[Tensor, "B N"]) -> Self:
        """Return the cache in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        ...

    def keep(self, rows: Int[Tensor, " M"]) -> Self:
        """Return the cache of the sentences with the indices `rows` only, in this order."""
        ...


@dataclass(frozen=True)
class TransformerState:
    """The source, and the keys and values of the words so far."""

    memories: tuple[Memory, ...]
    """The source, prepared once for each layer; shared by all hypotheses of a sentence."""
    encoder: AttentionMaps
    """The attention weights recorded in the encoder, (B,H,S,S), by site."""
    cache: Cache | None = None
    """The words so far; None before the first word."""

    @property
    def length(self) -> int:
        """The number of words read so far."""
        return 0 if self.cache is None else self.cache.length

    def select(self, beam: Int[Tensor, "B N"]) -> "TransformerState":
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        return self if self.cache is None else replace(self, cache=self.cache.select(beam))

    def keep(self, rows: Int[Tensor, " M"]) -> "TransformerState":
        """Return the state of the sentences with the indices `rows` only, in this order."""
        return TransformerState(
            memories=tuple(memory.select(rows) for memory in self.memories),
            encoder={site: weights[rows] for site, weights in self.encoder.items()},
            cache=None if self.cache is None else self.cache.keep(rows),
        )


def decoder_request(
    own: Collection[int],
    across: Collection[int],
    reweight: ReweightBySite | None,
    num_layers: int,
    first_step: int,
    num_steps: int,
) -> DecoderRequest:
    """Build the request for a decoder.

    Args:
        own: Numbers of the layers whose self-attention is recorded.
        across: Numbers of the layers whose attention to the source is recorded.
        reweight: Functions that replace weights, by site.
        num_layers: Number of layers.
        first_step: Index of the first step of the target that the decoder computes.
        num_steps: Number of these steps.
    """
    if not reweight:
        return DecoderRequest(own, across)
    changes = []
    for kind in ("decoder", "cross"):
        found = for_layers(reweight, kind, num_layers)
        changes.append({number: for_steps(each, first_step, num_steps) for number, each in found.items()})
    return DecoderRequest(own, across, *changes)
