"""MoChA, monotonic chunkwise attention: a soft look back over a window of keys that ends where a monotonic process stops.

The window lets a model reorder and average within reach, which monotonic attention alone cannot; with a window of one it is
monotonic attention. As there, one class is for training and one for decoding, with the same parameters.
"""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_size
from regard.attention.base import AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.masks import masked_softmax
from regard.attention.monotonic import (
    HardMonotonic,
    HardMonotonicState,
    MonotonicAttention,
    SoftMonotonic,
    SoftMonotonicState,
    checked_scorer,
)
from regard.attention.scored import ScoredAttention
from regard.shapes import check_shape


def expected_chunks(
    alignments: Float[Tensor, "B Q K"], scores: Float[Tensor, "B Q K"], chunk_size: int, *, mask: Tensor | None = None
) -> Float[Tensor, "B Q K"]:
    """The weight of each key, where a window that ends at key k has the probability α_ik and a softmax inside.

    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il), l and j among the keys allowed.

    Each window has a softmax of its own, so no scores are too large or too far apart. Cost and memory: B·Q·K·w.

    Args:
        alignments: α, the probability of each key to be the last of the window.
        scores: u, any real numbers.
        chunk_size: w, ≥ 1.
        mask: Boolean, broadcasting to (B,Q,K): True where a query may attend to a key; None for everywhere.

    Returns:
        β (B,Q,K), of the type of α. Each row sums to what the row of α sums to.

    Raises:
        ShapeError: If an axis does not fit.

    Reference: Chiu & Raffel 2018, eq. 17.
    Differs from the paper: eq. 19 computes it from exp(u) and moving sums of it, in which large scores overflow and small
    ones beside them are lost.
    """
    check_shape("scores", scores, "B Q K", check_shape("alignments", alignments, "B Q K"))
    before = chunk_size - 1
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    parts = alignments[..., None] * masked_softmax(_windows(scores.to(alignments.dtype), before), _windows(allowed, before))
    weights = parts[..., before]
    for back in range(1, chunk_size):
        weights = weights + nn.functional.pad(parts[..., before - back], (0, back))[..., back:]
    return weights


def _windows(x: Tensor, before: int) -> Tensor:
    """(B,Q,K,w): the window that ends at each key, from its first key to its last; zeros before the first key of all."""
    padded = nn.functional.pad(x, (before, 0))
    return torch.stack([padded[..., first : first + x.shape[-1]] for first in range(before + 1)], -1)


@dataclass(frozen=True, kw_only=True)
class ChunkMemory(Memory):
    """Keys made ready for both scorers; the fields of `Memory` are those of `monotonic`."""

    monotonic: Memory
    """For the scorer of the process, with the values."""
    chunk: Memory
    """For the scorer within the window; its values are empty."""

    def select(self, index: Int[Tensor, " M"]) -> "ChunkMemory":
        """Keep the given rows of the batch, in the given order."""
        return _join(self.monotonic.select(index), self.chunk.select(index))


torch.export.register_dataclass(ChunkMemory, serialized_type_name="regard.attention.ChunkMemory")


class _Chunked(MonotonicAttention):
    """A second scorer, within the window: what the soft and the hard form have in common."""

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


class MoChA(_Chunked, SoftMonotonic):
    """Monotonic chunkwise attention in expectation: weights = β, a softmax over each window, weighed by where windows may end.

    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il), α as in `SoftMonotonic`, u = chunk_scorer(q, k).

    Cost: that of `SoftMonotonic`, a second score, and B·Q·K·w for the windows (see `expected_chunks`). Windows count positions:
    masked keys within them get no weight, and are not made up for by earlier ones. A row of weights sums to 1 minus the
    probability of having run off the end.

    `hard()` gives the form for decoding. Its parameters have the same names, so
    `HardMoChA(…).load_state_dict(soft.state_dict())` does too.

    Reference: Chiu & Raffel 2018, eqs. 17 and 20 to 26.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        chunk_size: w, keys of a window, ≥ 1. The paper uses 2 for speech and 8 for texts.
        key_size: Dk, ≥ 1; None for the scorer's, or Dq.
        scorer: Whose scores are the energies e (its normalizer is not used); None for `WeightNormAdditive`, as in the paper.
        chunk_scorer: Whose scores are u (its normalizer is not used); None for another `WeightNormAdditive`, as in the paper,
            without its offset, which the softmax cancels.
        initial_offset: r at first; see `SoftMonotonic`. The paper uses −4 for speech and 0 for texts.
        noise: Standard deviation of the noise in training mode, ≥ 0.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width or the chunk is not a whole number of 1 or more, a width is not the scorers', or the
            noise is negative.

    Example:
        >>> attention = MoChA(256, chunk_size=4)
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
        noise: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size,
            key_size=key_size,
            scorer=scorer,
            initial_offset=initial_offset,
            noise=noise,
            device=device,
            dtype=dtype,
        )
        self._add_chunks(chunk_size, chunk_scorer, device, dtype)

    def hard(self) -> "HardMoChA":
        """The form for decoding, with the same parameters: not a copy of them."""
        hard = HardMoChA(self.query_size, chunk_size=self.chunk_size, scorer=self.scorer, chunk_scorer=self.chunk_scorer)
        hard.offset = self.offset
        return hard.train(self.training)

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: SoftMonotonicState | None = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, SoftMonotonicState]:
        """Attend with each query, in order; see `Attention.attend`."""
        memory = cast(ChunkMemory, memory)
        mask = self.scorer.check(query, memory, attn_mask)
        alignments, state = self.alignments(query, memory.monotonic, state, mask)
        scores = self.chunk_scorer.scores(query, memory.chunk)
        weights = expected_chunks(alignments, scores, self.chunk_size, mask=mask).to(memory.value.dtype)
        weights = reweighted(weights, mask, reweight)
        return AttentionOutput(weights @ memory.value, weights if need_weights else None), state


class HardMoChA(_Chunked, HardMonotonic):
    """Monotonic chunkwise attention for decoding: a softmax over the window that ends where the query stops.

    weights_ij = exp(u_ij) / Σ_{l=t_i−w+1..t_i} exp(u_il) for t_i − w < j ≤ t_i, t as in `HardMonotonic`; zero where it ran off
    the end.

    There is no gradient through the choice, but to values and scores within the window: train `MoChA`, and take its `hard()`,
    or load its state dict.

    Reference: Chiu & Raffel 2018, algorithm 1.
    Differs from the paper: the scores are made for all keys at once; p = ½ itself does not stop (it does in the paper's
    algorithm, and does not in its text).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        chunk_size: w, keys of a window, ≥ 1.
        key_size: Dk, ≥ 1; None for the scorer's, or Dq.
        scorer: Whose scores are the energies e; None for `WeightNormAdditive`, as in the paper.
        chunk_scorer: Whose scores are u; None for another `WeightNormAdditive`.
        initial_offset: r, until trained parameters are loaded.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width or the chunk is not a whole number of 1 or more, or a width is not the scorers'.

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

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: HardMonotonicState | None = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, HardMonotonicState]:
        """Attend with each query, in order; see `Attention.attend`."""
        memory = cast(ChunkMemory, memory)
        mask = self.scorer.check(query, memory, attn_mask)
        points, state = self.points(query, memory.monotonic, state, mask)
        keys = memory.value.shape[1]
        end, index = points[..., None], torch.arange(keys, device=points.device)
        window = (index <= end) & (index > end - self.chunk_size) & (end < keys)
        scores = self.chunk_scorer.scores(query, memory.chunk)
        allowed = window if mask is None else window & mask
        weights = reweighted(masked_softmax(scores, allowed).to(memory.value.dtype), allowed, reweight)
        return AttentionOutput(weights @ memory.value, weights if need_weights else None), state


def _prepare_chunk(scorer: ScoredAttention, key: Tensor, key_mask: Tensor | None) -> Memory:
    """The keys for the scorer within the window, with values of no width: those of the process serve."""
    return scorer.prepare(key, key[..., :0], key_mask=key_mask)


def _join(monotonic: Memory, chunk: Memory) -> ChunkMemory:
    return ChunkMemory(monotonic.key, monotonic.value, monotonic.key_mask, monotonic=monotonic, chunk=chunk)
