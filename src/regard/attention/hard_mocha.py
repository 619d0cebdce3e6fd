"""Monotonic chunkwise attention for decoding: a softmax over the window that ends where the query stops.

    weights_ij = exp(u_ij) / Σ_{l=t_i−w+1..t_i} exp(u_il)   for t_i − w < j ≤ t_i, else 0        (t: see `hard_monotonic`)

In code: `HardMoChA`, with `masked_softmax` of u = chunk_scorer(q, k) within `window_at(t, K, w)`. `ChunkedAttention` is the
base of this form and of `mocha.MoChA`.
"""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.arguments import check_size
from regard.attention.base import Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.hard_monotonic import HardMonotonic, HardMonotonicState
from regard.attention.masks import add_bias
from regard.attention.monotonic import MonotonicAttention, checked_scorer
from regard.attention.normalizers import masked_softmax
from regard.attention.scored import ScoredAttention, Weighed


def window_at(points: Int[Tensor, "B Q"], keys: int, chunk_size: int) -> Bool[Tensor, "B Q K"]:
    """Return a mask that is True for the keys t − w < j ≤ t, and False for all keys if a query did not stop (t = K)."""
    end, index = points[..., None], torch.arange(keys, device=points.device)
    return (index <= end) & (index > end - chunk_size) & (end < keys)


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


class HardMoChA(ChunkedAttention, HardMonotonic):
    """Monotonic chunkwise attention for decoding: a softmax over the window that ends where the query stops.

    weights_ij = exp(u_ij) / Σ_{l=t_i−w+1..t_i} exp(u_il) for t_i − w < j ≤ t_i, with t as in `HardMonotonic`; all are zero if
    the query did not stop.

    Values and scores within the window have gradients, but the choice of the window has none. Therefore train `MoChA` and call
    its `hard()`, or load its state dict.

    Reference: Chiu & Raffel 2018, algorithm 1.
    Differs from the paper: the scores of all keys are computed at once. A query with p = ½ does not stop, as in the paper's
    text; in the paper's algorithm, it stops.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        chunk_size: w, the number of keys in a window, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for the scorer's, or Dq without a scorer.
        scorer: Mechanism whose scores, plus r, are the energies e (see `HardMonotonic`); None for `WeightNormAdditive`,
            as in the paper.
        chunk_scorer: Mechanism whose scores are u; None for another `WeightNormAdditive`.
        initial_offset: Value of r (see `HardMonotonic`) until trained parameters are loaded.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width or the chunk size is not a whole number of 1 or more, a scorer has other widths, a state or
            dropout, or `initial_offset` is not finite.

    Example:
        >>> attention = HardMoChA(256, chunk_size=4)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    def __init__(
        self,
        query_size: int,
        *,
        chunk_size: int,
        key_size: int | None = None,
        scorer: ScoredAttention | None = None,
        chunk_scorer: ScoredAttention | None = None,
        initial_offset: float = -1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size, key_size=key_size, scorer=scorer, initial_offset=initial_offset, device=device, dtype=dtype
        )
        self._add_chunks(chunk_size, chunk_scorer, device, dtype)

    def weigh(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: HardMonotonicState | None,
        mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        reweight: Reweight | None,
    ) -> Weighed:
        """Return the softmax within the window of each query, in order; `score_bias` is added to e and to u."""
        memory = cast(ChunkMemory, memory)
        points, state = self.points(query, memory.monotonic, state, mask, score_bias)
        window = window_at(points, memory.value.shape[1], self.chunk_size)
        scores = add_bias(self.chunk_scorer.scores(query, memory.chunk), score_bias)
        allowed = window if mask is None else window & mask
        weights = masked_softmax(scores, allowed).to(memory.value.dtype)
        return Weighed(reweighted(weights, allowed, reweight), state)
