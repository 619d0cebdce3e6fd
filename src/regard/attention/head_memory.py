"""Keys and values of each head of multi-head attention; in a decoder, this is the key–value cache."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.base import Memory
from regard.errors import RequestError


@dataclass(frozen=True)
class HeadMemory(Memory):
    """Keys and values of each head, also used as key–value cache; G ≤ H is the number of key and value heads."""

    key: Float[Tensor, "B G K Da"]
    """The projected keys. In the state of a `MultiHead` without a window, they are already rotated by rotary positions."""
    value: Float[Tensor, "B G K Da"]
    """The projected values; masked positions have the projection of a zero vector."""
    key_mask: Bool[Tensor, "B K"] | None = None
    """Booleans (B,K), True where a key exists; None if all exist."""
    positions: Int[Tensor, "B K"] | None = None
    """Positions that the caller gave; None if they are consecutive."""

    def select(self, index: Int[Tensor, " M"]) -> "HeadMemory":
        """Keep the given rows of the batch, in the given order."""
        mask = None if self.key_mask is None else self.key_mask[index]
        return HeadMemory(self.key[index], self.value[index], mask, None if self.positions is None else self.positions[index])

    def join(self, later: "HeadMemory") -> "HeadMemory":
        """Return the keys and values of this memory, followed by those of `later`.

        Raises:
            RequestError: If only one of the two memories has positions.
        """
        key, value = torch.cat([self.key, later.key], 2), torch.cat([self.value, later.value], 2)
        mask = None
        if self.key_mask is not None or later.key_mask is not None:
            mask = torch.cat([self._all(), later._all()], 1)
        if self.positions is None or later.positions is None:
            if self.positions is not later.positions:
                raise RequestError(
                    "MultiHead got key_positions in some steps only; give them in all calls of prepare or in none"
                )
            return HeadMemory(key, value, mask)
        return HeadMemory(key, value, mask, torch.cat([self.positions, later.positions], 1))

    def last(self, count: int) -> "HeadMemory":
        """Keep at most the last `count` keys; keep all if `torch.export` runs with a dynamic number of keys."""
        keys = self.key.shape[2]
        if not isinstance(keys, int):
            return self  # export with a dynamic number of keys; surplus keys change nothing, because the window masks them
        start = max(keys - count, 0)
        mask = None if self.key_mask is None else self.key_mask[:, start:]
        positions = None if self.positions is None else self.positions[:, start:]
        return HeadMemory(self.key[:, :, start:], self.value[:, :, start:], mask, positions)

    def _all(self) -> Tensor:
        if self.key_mask is not None:
            return self.key_mask
        return self.key.new_ones(self.key.shape[0], self.key.shape[2], dtype=torch.bool)


torch.export.register_dataclass(HeadMemory, serialized_type_name="regard.attention.HeadMemory")
