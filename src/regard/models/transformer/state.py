"""Where the decoding of B sentences stands, N hypotheses of each."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.base import Memory
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

    @property
    def length(self) -> int:
        """How many words were read."""
        return self.caches[0].length if self.caches else 0

    def select(self, beam: Int[Tensor, "B N"]) -> "TransformerState":
        """For each new hypothesis, the index of the one it goes on from; moves the words so far and nothing of the source."""
        first = torch.arange(len(beam), device=beam.device)[:, None] * self.count
        return replace(self, moves=self._moved((first + beam).flatten()), count=beam.shape[1])

    def keep(self, rows: Int[Tensor, " M"]) -> "TransformerState":
        """Go on with these sentences only."""
        each = rows[:, None] * self.count + torch.arange(self.count, device=rows.device)
        return replace(
            self,
            memories=tuple(memory.select(rows) for memory in self.memories),
            encoder={site: weights[rows] for site, weights in self.encoder.items()},
            moves=self._moved(each.flatten()),
        )

    def moved_caches(self) -> tuple[KeyValueCache, ...] | None:
        """The words so far of the hypotheses as they stand: one move for all that was selected and kept since the last step."""
        if self.caches is None or self.moves is None:
            return self.caches
        return tuple(cache.select(self.moves) for cache in self.caches)

    def _moved(self, rows: Tensor) -> Tensor:
        return rows if self.moves is None else self.moves[rows]
