"""Keys and values of multi-head attention by head: in a decoder this is the key–value cache."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.base import Memory


@dataclass(frozen=True)
class HeadMemory(Memory):
    """Keys and values by head; the key–value cache too. G ≤ H heads have keys of their own."""

    key: Float[Tensor, "B G K Da"]
    """The projected keys; in a state without a window they are rotated to their positions, if the positions rotate keys."""
    value: Float[Tensor, "B G K Da"]
    """The projected values; behind the mask those of a zero vector."""
    key_mask: Bool[Tensor, "B K"] | None = None
    """(B,K) booleans, True where there is a key; None if there is one everywhere."""

    def select(self, index: Int[Tensor, " M"]) -> "HeadMemory":
        """Keep the given rows of the batch, in the given order."""
        mask = None if self.key_mask is None else self.key_mask[index]
        return HeadMemory(self.key[index], self.value[index], mask)

    def join(self, later: "HeadMemory") -> "HeadMemory":
        """Append later keys to these."""
        key, value = torch.cat([self.key, later.key], 2), torch.cat([self.value, later.value], 2)
        if self.key_mask is None and later.key_mask is None:
            return HeadMemory(key, value)
        return HeadMemory(key, value, torch.cat([self._all(), later._all()], 1))

    def last(self, count: int) -> "HeadMemory":
        """Keep the last keys, at most `count` of them; all where `torch.export` leaves their number open."""
        keys = self.key.shape[2]
        if not isinstance(keys, int):
            return self  # an export with an open number of keys; more than are needed change nothing
        start = max(keys - count, 0)
        mask = None if self.key_mask is None else self.key_mask[:, start:]
        return HeadMemory(self.key[:, :, start:], self.value[:, :, start:], mask)

    def _all(self) -> Tensor:
        if self.key_mask is not None:
            return self.key_mask
        return self.key.new_ones(self.key.shape[0], self.key.shape[2], dtype=torch.bool)


torch.export.register_dataclass(HeadMemory, serialized_type_name="regard.attention.HeadMemory")
