"""Base class of `MoChA` and `HardMoChA` (monotonic chunkwise attention), with a second scorer for the keys within a window."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.arguments import check_size
from regard.attention.base import Memory
from regard.attention.monotonic import MonotonicAttention, checked_scorer
from regard.attention.scored import ScoredAttention


@dataclass(frozen=True, kw_only=True)
class ChunkMemory(Memory):
    """Prepared keys for both scorers. The fields inherited from `Memory` equal those of `monotonic`."""

    monotonic: Memory
    """Memory of the scorer that decides where a query stops; it holds the values."""
    chunk: Memory
    """Memory of the scorer for the keys within the window; its values have width 0."""

    def select(self, index: Int[Tensor, " M"]) -> "ChunkMemory":
        """Keep the given rows of the batch, in the given order."""
        return _join(self.monotonic.select(index), self.chunk.select(index))


torch.export.register_dataclass(ChunkMemory, serialized_type_name="regard.attention.ChunkMemory")


class ChunkedAttention(MonotonicAttention):
    """Monotonic attention with a second scorer, which scores the keys within a window."""

    def _add_chunks(
        self,
        chunk_size: int,
        scorer: ScoredAttention | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        name = type(self).__name__
        check_size(name, "chunk_size", chunk_size)
        self.chunk_size = chunk_size
        self.chunk_scorer = checked_scorer(
            name, "chunk_scorer", self.query_size, self.key_size, scorer, device=device, dtype=dtype
        )

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> ChunkMemory:
        """Project the keys once for each of the two scorers."""
        return _join(super().prepare(key, value, key_mask=key_mask), _prepare_chunk(self.chunk_scorer, key, key_mask))


def _prepare_chunk(scorer: ScoredAttention, key: Tensor, key_mask: Tensor | None) -> Memory:
    """Return the memory for the scorer of the keys within the window.

    Its values have width 0, because the values in `ChunkMemory.monotonic` are used.
    """
    return scorer.prepare(key, key[..., :0], key_mask=key_mask)


def _join(monotonic: Memory, chunk: Memory) -> ChunkMemory:
    return ChunkMemory(monotonic.key, monotonic.value, monotonic.key_mask, monotonic=monotonic, chunk=chunk)
