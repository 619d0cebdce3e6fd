"""The decoding state of a Transformer for B sentences with N hypotheses each."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.base import Memory
from regard.layers.cache import KeyValueCache
from regard.layers.transformer import DecoderRequest, LayerWeights
from regard.models.seq2seq import AttentionMaps
from regard.reweight import ReweightBySite, for_layers, for_steps


class SteppedDecoder(Protocol):
    """A decoder that runs one word of each hypothesis through its layers; see `TransformerDecoder.step`."""

    def step(
        self,
        x: Float[Tensor, "B N D"],
        memories: Sequence[Memory],
        caches: Sequence[KeyValueCache] | None,
        request: DecoderRequest,
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, tuple[KeyValueCache, ...]]:
        """Run all layers over one new word of each hypothesis."""
        ...


class TransformerState(Protocol):
    """The contract of the decoding state of a Transformer: a `CachedState`, or the state of a packed decoder."""

    @property
    def encoder(self) -> AttentionMaps:
        """The attention weights recorded in the encoder, (B,H,S,S), by site."""
        ...

    @property
    def length(self) -> int:
        """The number of words read so far."""
        ...

    def memory(self, number: int) -> Memory:
        """Return the keys and values of the source to which the layer `number` attends."""
        ...

    def advance(
        self, decoder: SteppedDecoder, x: Float[Tensor, "B N D"], request: DecoderRequest
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, Self]:
        """Run the decoder over one new word of each hypothesis.

        Args:
            decoder: The decoder of the model.
            x: Embeddings with their positions.
            request: Weights to return or to replace, by layer.
        """
        ...

    def select(self, beam: Int[Tensor, "B N"]) -> Self:
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        ...

    def keep(self, rows: Int[Tensor, " M"]) -> Self:
        """Return the state of the sentences with the indices `rows` only, in this order."""
        ...


@dataclass(frozen=True)
class CachedState:
    """A state with a key–value cache for each layer; the decoder's `step` reads the caches and returns new ones."""

    memories: tuple[Memory, ...]
    """The source, prepared once for each layer; shared by all hypotheses of a sentence."""
    encoder: AttentionMaps
    """The attention weights recorded in the encoder, (B,H,S,S), by site."""
    caches: tuple[KeyValueCache, ...] | None = None
    """Each layer's cache of the words so far, with B·N rows; None before the first word."""
    count: int = 1
    """The number of hypotheses N."""
    moves: Int[Tensor, " R"] | None = None
    """The row of the caches that each hypothesis continues; None if each continues its own row. Rows are copied only when
    the caches are read.
    """

    @property
    def length(self) -> int:
        """The number of words read so far."""
        return self.caches[0].length if self.caches else 0

    def memory(self, number: int) -> Memory:
        """Return the keys and values of the source to which the layer `number` attends."""
        return self.memories[number]

    def advance(
        self, decoder: SteppedDecoder, x: Float[Tensor, "B N D"], request: DecoderRequest
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, "CachedState"]:
        """Run the decoder over one new word of each hypothesis."""
        features, weights, caches = decoder.step(x, self.memories, self.moved_caches(), request)
        return features, weights, replace(self, caches=caches, count=x.shape[1], moves=None)

    def select(self, beam: Int[Tensor, "B N"]) -> "CachedState":
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        first = torch.arange(len(beam), device=beam.device)[:, None] * self.count
        return replace(self, moves=self._moved((first + beam).flatten()), count=beam.shape[1])

    def keep(self, rows: Int[Tensor, " M"]) -> "CachedState":
        """Return the state of the sentences with the indices `rows` only, in this order."""
        each = rows[:, None] * self.count + torch.arange(self.count, device=rows.device)
        return replace(
            self,
            memories=tuple(memory.select(rows) for memory in self.memories),
            encoder={site: weights[rows] for site, weights in self.encoder.items()},
            moves=self._moved(each.flatten()),
        )

    def moved_caches(self) -> tuple[KeyValueCache, ...] | None:
        """Return the caches with one row for each hypothesis; one copy applies all earlier calls of `select` and `keep`."""
        if self.caches is None or self.moves is None:
            return self.caches
        return tuple(cache.select(self.moves) for cache in self.caches)

    def _moved(self, rows: Tensor) -> Tensor:
        return rows if self.moves is None else self.moves[rows]


def decoder_request(
    own: Collection[int], across: Collection[int], reweight: ReweightBySite | None, num_layers: int, steps: range
) -> DecoderRequest:
    """Build the request for a decoder.

    Args:
        own: Numbers of the layers whose self-attention is recorded.
        across: Numbers of the layers whose attention to the source is recorded.
        reweight: Functions that replace weights, by site.
        num_layers: Number of layers.
        steps: Steps of the target that the decoder computes.
    """
    if not reweight:
        return DecoderRequest(own, across)
    changes = []
    for kind in ("decoder", "cross"):
        found = for_layers(reweight, kind, num_layers)
        changes.append({number: for_steps(each, steps.start, len(steps)) for number, each in found.items()})
    return DecoderRequest(own, across, *changes)
