"""The keys and values that a causal decoder keeps from step to step.

A step writes its keys and values into the free space of a `Pool`. Earlier ones are copied only if that space is missing or used
by another state, or if gradients are needed. `select` copies keys and values, and adds new free space. Time is the first axis,
so that the keys and values of one step are contiguous.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.head_memory import HeadMemory
from regard.layers.pool import Pool

_SPARE = 8
"""Number of free positions that `select` adds."""


@dataclass(frozen=True)
class KeyValueCache(HeadMemory):
    """The keys and values of R hypotheses and t positions: a state of `MultiHead`, to which a step appends without a copy.

    `key` and `value`, (R,G,t,Da) for G heads of width Da, are views of the pool.
    """

    pool: Pool = field(kw_only=True)
    """Pool (C,R,W) with space for C ≥ t positions. The last axis concatenates the keys of all heads, and then their values."""

    @classmethod
    def begin(cls, first: HeadMemory) -> "KeyValueCache":
        """Build a cache with the keys and values of the first position, (R,G,1,Da)."""
        rows, heads, _, width = first.key.shape
        return cls.of(Pool.empty(first.key.new_empty(0, rows, 2 * heads * width), 0), heads).join(first)

    @classmethod
    def of(cls, pool: Pool, heads: int) -> "KeyValueCache":
        """Build the cache that a pool holds, for G = `heads`."""
        key, value = pool.positions.unflatten(-1, (2, heads, -1)).permute(2, 1, 3, 0, 4)
        return cls(key, value, pool=pool)

    def join(self, later: HeadMemory) -> "KeyValueCache":
        """Return a cache with one more position, whose keys and values are `later`, (R,G,1,Da); this cache does not change."""
        row, heads = torch.stack((later.key[:, :, 0], later.value[:, :, 0]), 1).flatten(1), self.key.shape[1]
        if torch.is_grad_enabled() and (row.requires_grad or self.pool.storage.requires_grad):
            return self.of(Pool.of(torch.cat((self.pool.positions, row[None])), 0), heads)
        pool = self.pool.extended()
        pool.storage[self.pool.length] = row
        return self.of(pool, heads)

    def select(self, index: Int[Tensor, " M"]) -> "KeyValueCache":
        """Return a cache with the given rows (hypotheses) only, in the given order."""
        kept, heads = self.pool.positions, self.key.shape[1]
        if torch.is_grad_enabled() and kept.requires_grad:
            return self.of(Pool.of(kept.index_select(1, index), 0), heads)
        storage = kept.new_empty(self.pool.length + _SPARE, len(index), kept.shape[2])
        torch.index_select(kept, 1, index, out=storage[: self.pool.length])
        return self.of(Pool(storage, 0, self.pool.length, [self.pool.length]), heads)

    def last(self, count: int) -> "KeyValueCache":
        """Return the whole cache: a window masks the keys before it."""
        return self


@dataclass(frozen=True)
class LayerCaches:
    """The caches of all layers of a decoder, for B sentences with N hypotheses each."""

    layers: tuple[HeadMemory, ...]
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

    def read(self) -> tuple[HeadMemory, ...]:
        """Return the caches with one row for each hypothesis; one copy applies all earlier calls of `select` and `keep`."""
        return self.layers if self.moves is None else tuple(cache.select(self.moves) for cache in self.layers)

    def _moved(self, rows: Tensor) -> Tensor:
        return rows if self.moves is None else self.moves[rows]
