"""The keys and values that a causal decoder keeps from step to step.

A step writes its keys and values into the free space of a `Pool`. Earlier ones are copied only if that space is missing or used
by another state, or if gradients are needed. `select` copies keys and values, and adds new free space. Time is the first axis,
so that the keys and values of one step are contiguous.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.head_memory import HeadMemory
from regard.layers.pool import Pool

_SPARE = 8
"""Number of free positions that `select` adds."""


@dataclass(frozen=True)
class KeyValueCache:
    """The keys and values of one attention layer, for R hypotheses and t positions."""

    pool: Pool
    """Pool (C,R,W) with space for C ≥ t positions of R hypotheses. The last axis concatenates the keys of all heads, and then
    their values.
    """
    heads: tuple[int, int]
    """Number of heads, and the width of each."""

    @property
    def length(self) -> int:
        """The number of positions, t."""
        return self.pool.length

    @classmethod
    def begin(cls, first: HeadMemory) -> "KeyValueCache":
        """Build a cache with the keys and values of the first position, (R,G,1,Da) for G heads of width Da."""
        rows, heads, _, width = first.key.shape
        return cls(Pool.empty(first.key.new_empty(0, rows, 2 * heads * width), 0), (heads, width)).append(first)

    def append(self, new: HeadMemory) -> "KeyValueCache":
        """Return a cache with one more position, whose keys and values are `new`, (R,G,1,Da); this cache does not change."""
        row = torch.stack((new.key[:, :, 0], new.value[:, :, 0]), 1).flatten(1)
        if torch.is_grad_enabled() and (row.requires_grad or self.pool.storage.requires_grad):
            return KeyValueCache(Pool.of(torch.cat((self.pool.positions, row[None])), 0), self.heads)
        pool = self.pool.extended()
        pool.storage[self.length] = row
        return KeyValueCache(pool, self.heads)

    def select(self, rows: Int[Tensor, " M"]) -> "KeyValueCache":
        """Return a cache with the given rows (hypotheses) only, in the given order."""
        kept = self.pool.positions
        if torch.is_grad_enabled() and kept.requires_grad:
            return KeyValueCache(Pool.of(kept.index_select(1, rows), 0), self.heads)
        storage = kept.new_empty(self.length + _SPARE, len(rows), kept.shape[2])
        torch.index_select(kept, 1, rows, out=storage[: self.length])
        return KeyValueCache(Pool(storage, 0, self.length, [self.length]), self.heads)

    @property
    def memory(self) -> HeadMemory:
        """The keys and values that attention reads, (R,G,t,Da), as views."""
        kept = self.pool.positions.unflatten(-1, (2, *self.heads)).permute(2, 1, 3, 0, 4)
        return HeadMemory(kept[0], kept[1])


@dataclass(frozen=True)
class LayerCaches:
    """The caches of all layers of a decoder, for B sentences with N hypotheses each."""

    layers: tuple[KeyValueCache, ...]
    """Each layer's cache, with B·N rows before the last reordering."""
    count: int
    """The number of hypotheses N."""
    moves: Int[Tensor, " R"] | None = None
    """The row of the caches that each hypothesis continues; None if each continues its own row. Rows are copied only when the
    caches are read.
    """

    @property
    def length(self) -> int:
        """The number of words so far."""
        return self.layers[0].length

    def select(self, beam: Int[Tensor, "B N"]) -> "LayerCaches":
        """Return the caches in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        first = torch.arange(len(beam), device=beam.device)[:, None] * self.count
        return LayerCaches(self.layers, beam.shape[1], self._moved((first + beam).flatten()))

    def keep(self, rows: Int[Tensor, " M"]) -> "LayerCaches":
        """Return the caches of the sentences with the indices `rows` only, in this order."""
        each = rows[:, None] * self.count + torch.arange(self.count, device=rows.device)
        return LayerCaches(self.layers, self.count, self._moved(each.flatten()))

    def read(self) -> tuple[KeyValueCache, ...]:
        """Return the caches with one row for each hypothesis; one copy applies all earlier calls of `select` and `keep`."""
        return self.layers if self.moves is None else tuple(cache.select(self.moves) for cache in self.layers)

    def _moved(self, rows: Tensor) -> Tensor:
        return rows if self.moves is None else self.moves[rows]
