"""Where the decoding of B sentences stands, N hypotheses of each."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.base import Memory
from regard.layers.beam_decoder import BeamDecoder, Pools
from regard.layers.cache import KeyValueCache
from regard.layers.ready import ReadyLinear
from regard.models.seq2seq import AttentionMaps


@dataclass(frozen=True)
class TransformerState:
    """What the steps of a Transformer go on from."""

    memories: tuple[Memory, ...]
    """The source, prepared once for each layer; the same for all the hypotheses of a sentence."""
    encoder: AttentionMaps
    """What was recorded within the encoder, (B,H,S,S)."""
    caches: tuple[KeyValueCache, ...] | None = None
    """The words so far, for each layer, B·N rows; None before the first."""
    count: int = 1
    """N."""
    output: ReadyLinear | None = None
    """The output layer made ready for many steps, where there is a search ahead."""

    moves: Int[Tensor, " R"] | None = None
    """Which row of the caches each hypothesis goes on from; None where each has its own. They move when they are read."""

    decoder: BeamDecoder | None = None
    """The decoder made ready for a search; None where the plain one steps."""
    pools: Pools | None = None
    """With it, in place of memories and caches once a word was read."""

    @property
    def length(self) -> int:
        """How many words were read."""
        if self.pools is not None:
            return self.pools.length
        return self.caches[0].length if self.caches else 0

    def select(self, beam: Int[Tensor, "B N"]) -> "TransformerState":
        """For each new hypothesis, the index of the one it goes on from; moves the words so far and nothing of the source."""
        if self.pools is not None:
            return replace(self, pools=self.pools.select(beam), count=beam.shape[1])
        first = torch.arange(len(beam), device=beam.device)[:, None] * self.count
        return replace(self, moves=self._moved((first + beam).flatten()), count=beam.shape[1])

    def keep(self, rows: Int[Tensor, " M"]) -> "TransformerState":
        """Go on with these sentences only."""
        encoder = {site: weights[rows] for site, weights in self.encoder.items()}
        if self.pools is not None:
            return replace(self, memories=(), encoder=encoder, pools=self.pools.keep(rows))
        each = rows[:, None] * self.count + torch.arange(self.count, device=rows.device)
        return replace(
            self,
            memories=tuple(memory.select(rows) for memory in self.memories),
            encoder=encoder,
            moves=self._moved(each.flatten()),
        )

    def memory(self, number: int) -> Memory:
        """What a layer reads of the source."""
        return self.memories[number] if self.pools is None else self.pools.source(number)

    def moved_caches(self) -> tuple[KeyValueCache, ...] | None:
        """The words so far of the hypotheses as they stand: one move for all that was selected and kept since the last step."""
        if self.caches is None or self.moves is None:
            return self.caches
        return tuple(cache.select(self.moves) for cache in self.caches)

    def _moved(self, rows: Tensor) -> Tensor:
        return rows if self.moves is None else self.moves[rows]
