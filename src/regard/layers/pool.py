"""A tensor with space for more positions, shared by all decoding states that continue it.

A decoding step adds one position. Copying all earlier positions for that would cost more than the step itself, so the new
position goes into space that is kept free behind the others. Two states may continue the same pool: the first one writes
into the free space; the second one finds that place taken and copies the pool first. So no state ever changes what another
one reads.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_SPARE = 8
"""Minimum number of free positions that `extended` adds when it must copy a pool."""


@dataclass(frozen=True)
class Pool:
    """The first `length` positions along one axis of a tensor, which may have free space for more positions."""

    storage: Tensor
    """The tensor: the positions, and free space after them."""
    axis: int
    """The axis of positions."""
    length: int
    """Number of positions."""
    used: list[int]
    """Number of positions of the storage that are in use, in a list of length 1 that all pools of this storage share."""

    @classmethod
    def empty(cls, like: Tensor, axis: int) -> "Pool":
        """Build a pool without positions.

        Args:
            like: A tensor of the shape, dtype and device of the storage; its size along `axis` does not matter.
            axis: The axis of positions.
        """
        return cls(like.new_empty(*like.shape[:axis], 0, *like.shape[axis + 1 :]), axis, 0, [0])

    @classmethod
    def of(cls, positions: Tensor, axis: int) -> "Pool":
        """Build a pool that consists of the given positions, without free space."""
        length = positions.shape[axis]
        return cls(positions, axis, length, [length])

    @property
    def positions(self) -> Tensor:
        """The positions, as a view of the storage."""
        return self.storage.narrow(self.axis, 0, self.length)

    def extended(self) -> "Pool":
        """Return a pool with one more position, which the caller must fill; the positions of this pool do not change."""
        pool = self
        if self.length == self.storage.shape[self.axis] or self.length < self.used[0]:
            pool = self.with_space(max(_SPARE, self.length))
        pool.used[0] = pool.length + 1
        return Pool(pool.storage, pool.axis, pool.length + 1, pool.used)

    def with_space(self, space: int = _SPARE) -> "Pool":
        """Return a copy with free space for `space` positions, whose values are undefined."""
        made = self._empty(self.length + space)
        made.positions.copy_(self.positions)
        return made

    def index_select(self, axis: int, index: Tensor) -> "Pool":
        """Return a copy that keeps the given indices along `axis`, with space for as many positions as before.

        Free space is not copied: in a large pool, copying it would double the memory that is touched.
        """
        made = self._empty(self.storage.shape[self.axis], axis, len(index))
        torch.index_select(self.positions, axis, index, out=made.positions)
        return made

    def _empty(self, capacity: int, axis: int | None = None, size: int = 0) -> "Pool":
        """Build a pool of the same length with undefined values, and space for `capacity` positions in all.

        If `axis` is given, `size` replaces the size of the storage along it.
        """
        shape = list(self.storage.shape)
        shape[self.axis] = capacity
        if axis is not None:
            shape[axis] = size
        return Pool(self.storage.new_empty(shape), self.axis, self.length, [self.length])
