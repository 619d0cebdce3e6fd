"""Keys and values of each head; in a decoder, they are also the state: the keys and values of all steps so far."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.base import Memory, register
from regard.errors import RequestError


@register
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
    hidden: Float[Tensor, "B 1 1 K"] | None = None
    """The key mask as numbers to add to the scores, if it was resolved beforehand (see `KeyMask`); else None."""
    query: Float[Tensor, "B H K E"] | None = None
    """Queries of self-attention, already rotated, where one product gave queries, keys and values; else None."""
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

    def join(self, later: "HeadMemory") -> "HeadMemory":
        """Return the keys and values of this memory, followed by those of `later`.

        Raises:
            RequestError: If only one of the two memories has positions.
        """
        if (self.positions is None) != (later.positions is None):
            raise RequestError("MultiHead got key_positions in some steps only; give them in all calls of prepare or in none")
        mask = None if self.key_mask is None and later.key_mask is None else torch.cat([self.exists, later.exists], 1)
        key, value = torch.cat([self.key, later.key], 2), torch.cat([self.value, later.value], 2)
        positions = (
            None if self.positions is None or later.positions is None else torch.cat([self.positions, later.positions], 1)
        )
        gates = None if self.gates is None or later.gates is None else torch.cat([self.gates, later.gates], 2)
        return HeadMemory(key, value, mask, positions, gates, dropped=self.dropped)

    def contiguous(self) -> "HeadMemory":
        """Return the memory with the keys and values of each head next to each other."""
        return replace(self, key=self.key.contiguous(), value=self.value.contiguous())

    def last(self, count: int) -> "HeadMemory":
        """Keep at most the last `count` keys; keep all if `torch.export` runs with a dynamic number of keys."""
        keys = self.key.shape[2]
        if not isinstance(keys, int) or keys <= count:
            return self  # in an export, surplus keys change nothing, because the window masks them
        start = keys - count
        mask, positions = (None if x is None else x[:, start:] for x in (self.key_mask, self.positions))
        gates = None if self.gates is None else self.gates[:, :, start:]
        key, value = self.key[:, :, start:], self.value[:, :, start:]
        return HeadMemory(key, value, mask, positions, gates, dropped=(self.dropped or 0) + start)

    def with_further(self, pairs: list[tuple[Float[Tensor, "G N E"], Float[Tensor, "G N Ev"]]]) -> "HeadMemory":
        """Return keys and values followed by further ones, the same in each row; masks and positions are left out."""
        if not pairs:
            return self
        rows = self.key.shape[0]
        key = torch.cat([self.key, *(key.to(self.key).expand(rows, -1, -1, -1) for key, _ in pairs)], 2)
        value = torch.cat([self.value, *(value.to(self.value).expand(rows, -1, -1, -1) for _, value in pairs)], 2)
        return HeadMemory(key, value)
