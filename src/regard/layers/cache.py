"""The keys and values that a causal decoder keeps from step to step.

Nothing is copied but where hypotheses move: a step writes its keys into room that is left behind those before it, and `select`
leaves such room. Time comes first, so that a step's keys lie together.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.multihead import HeadMemory

_ROOM = 8
"""Positions that are kept free when keys move."""


@dataclass(frozen=True)
class KeyValueCache:
    """The keys and values of one attention, of R hypotheses and t positions."""

    storage: Float[Tensor, "C R W"]
    """Of each position [key; value], all heads side by side; room for C ≥ t positions."""
    length: int
    """t."""
    heads: tuple[int, int]
    """How many heads, and how wide each."""
    used: list[int]
    """How many positions are taken, by this cache or by another that goes on from it: it writes only behind them."""

    @classmethod
    def begin(cls, first: HeadMemory) -> "KeyValueCache":
        """A cache of the keys of the first position, (R,G,1,Da)."""
        rows, heads, _, width = first.key.shape
        storage = first.key.new_empty(0, rows, 2 * heads * width)
        return cls(storage, 0, (heads, width), [0]).append(first)

    def append(self, new: HeadMemory) -> "KeyValueCache":
        """The cache with one more position, (R,G,1,Da); this one stays what it was."""
        row = torch.stack((new.key[:, :, 0], new.value[:, :, 0]), 1).flatten(1)
        if torch.is_grad_enabled() and (row.requires_grad or self.storage.requires_grad):
            whole = torch.cat((self.storage[: self.length], row[None]))
            return KeyValueCache(whole, self.length + 1, self.heads, [self.length + 1])
        storage, used = self.storage, self.used
        if self.length == len(storage) or self.length < used[0]:
            storage = storage.new_empty(self.length + max(_ROOM, self.length), *storage.shape[1:])
            storage[: self.length] = self.storage[: self.length]
            used = [self.length]
        storage[self.length] = row
        used[0] = self.length + 1
        return KeyValueCache(storage, self.length + 1, self.heads, used)

    def select(self, rows: Int[Tensor, " M"]) -> "KeyValueCache":
        """Keep the given rows, in the given order."""
        kept = self.storage[: self.length]
        if torch.is_grad_enabled() and kept.requires_grad:
            return KeyValueCache(kept.index_select(1, rows), self.length, self.heads, [self.length])
        storage = kept.new_empty(self.length + _ROOM, len(rows), kept.shape[2])
        torch.index_select(kept, 1, rows, out=storage[: self.length])
        return KeyValueCache(storage, self.length, self.heads, [self.length])

    @property
    def memory(self) -> HeadMemory:
        """What attention reads: keys and values (R,G,t,Da), as views."""
        kept = self.storage[: self.length].unflatten(-1, (2, *self.heads)).permute(2, 1, 3, 0, 4)
        return HeadMemory(kept[0], kept[1])
