"""Keys and values of each head; in a decoder, they are also the state: the keys and values of all steps so far."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.base import Memory
from regard.errors import RequestError


@dataclass(frozen=True)
class HeadMemory(Memory):
    """Keys and values of each head: the memory and the state of every mechanism with heads; G ≤ H key and value heads."""

    key: Float[Tensor, "B G K E"]
    """The projected keys. In a state, they are already rotated by rotary positions."""
    value: Float[Tensor, "B Gv K Ev"]
    """The projected values; masked positions have the projection of a zero vector."""
    key_mask: Bool[Tensor, "B K"] | None = None
    """Booleans (B,K), True where a key exists; None if all exist."""
    positions: Int[Tensor, "B K"] | None = None
    """Positions that the caller gave; None if they are consecutive."""
    gates: Float[Tensor, "B H K X"] | None = None
    """Gates: X numbers for each head and key; None for a mechanism without gates."""
    summary: Float[Tensor, "B H E Es"] | None = None
    """All keys and values in one matrix for each head, for mechanisms that read such a matrix; else None."""
    dropped: int | None = None
    """Number of earlier keys that a window has removed, which is the position of the first key; None for none."""

    @property
    def length(self) -> int:
        """The number of keys, including those that a window has removed."""
        return (self.dropped or 0) + self.key.shape[2]

    @property
    def exists(self) -> Bool[Tensor, "B K"]:
        """The key mask as a tensor, even if all keys exist."""
        if self.key_mask is not None:
            return self.key_mask
        return self.key.new_ones(self.key.shape[0], self.key.shape[2], dtype=torch.bool)

    def select(self, index: Int[Tensor, " M"]) -> "HeadMemory":
        """Keep the given rows of the batch, in the given order."""
        further = (self.key_mask, self.positions, self.gates, self.summary)
        mask, positions, gates, summary = (None if x is None else x[index] for x in further)
        return HeadMemory(self.key[index], self.value[index], mask, positions, gates, summary, self.dropped)

    def join(self, later: "HeadMemory") -> "HeadMemory":
        """Return the keys and values of this memory, followed by those of `later`.

        Raises:
            RequestError: If only one of the two memories has positions.
        """
        if (self.positions is None) != (later.positions is None):
            raise RequestError("MultiHead got key_positions in some steps only; give them in all calls of prepare or in none")
        mask = positions = gates = None
        if self.key_mask is not None or later.key_mask is not None:
            mask = torch.cat([self.exists, later.exists], 1)
        if self.positions is not None and later.positions is not None:
            positions = torch.cat([self.positions, later.positions], 1)
        if self.gates is not None and later.gates is not None:
            gates = torch.cat([self.gates, later.gates], 2)
        key, value = torch.cat([self.key, later.key], 2), torch.cat([self.value, later.value], 2)
        return HeadMemory(key, value, mask, positions, gates, dropped=self.dropped)

    def part(self, start: int, end: int | None = None) -> "HeadMemory":
        """Return the keys from `start` up to, but not including, `end` (None for the end), without copies."""
        mask, positions = (None if x is None else x[:, start:end] for x in (self.key_mask, self.positions))
        gates = None if self.gates is None else self.gates[:, :, start:end]
        key, value = self.key[:, :, start:end], self.value[:, :, start:end]
        return HeadMemory(key, value, mask, positions, gates, dropped=(self.dropped or 0) + start)

    def last(self, count: int) -> "HeadMemory":
        """Keep at most the last `count` keys; keep all if `torch.export` runs with a dynamic number of keys."""
        keys = self.key.shape[2]
        if not isinstance(keys, int) or keys <= count:
            return self  # in an export, surplus keys change nothing, because the window masks them
        return self.part(keys - count)

    def with_further(self, key: Float[Tensor, "G N E"], value: Float[Tensor, "G N Ev"]) -> "HeadMemory":
        """Return keys and values followed by further ones, the same in each row and without gates; masks are left out."""
        key, value = (
            torch.cat([x, more.to(x).expand(x.shape[0], -1, -1, -1)], 2) for x, more in ((self.key, key), (self.value, value))
        )
        gates = None if self.gates is None else torch.nn.functional.pad(self.gates, (0, 0, 0, key.shape[2] - self.key.shape[2]))
        return HeadMemory(key, value, gates=gates)


torch.export.register_dataclass(HeadMemory, serialized_type_name="regard.attention.HeadMemory")
