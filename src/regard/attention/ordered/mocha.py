"""Monotonic chunkwise attention (MoChA): a softmax over the window of w keys that ends where the query stops.

    weights_ij = exp(u_ij) / Σ_{l=t_i−w+1..t_i} exp(u_il)   for t_i − w < j ≤ t_i, else 0        `HardMoChA`, for decoding
    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il)                              `MoChA`, for training

See `monotonic` for t and α; u = chunk_scorer(q, k). In code: `expected_chunks`; in the hard form, α is 1 at t_i, else 0.
Within a window, a model can reorder and average keys; monotonic attention alone, which is the case w = 1, cannot.
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_size
from regard.attention.base import Memory, register
from regard.attention.capabilities import Reweight
from regard.attention.learned import factory
from regard.attention.masks import Masks
from regard.attention.normalizers.softmax import masked_softmax
from regard.attention.ordered.monotonic import HardMonotonic, MonotonicAttention, MonotonicOptions, SoftMonotonic
from regard.attention.scores.base import ScoredAttention, Weighed, finish_weights
from regard.shapes import check_shape


def expected_chunks(
    alignments: Float[Tensor, "B Q K"], scores: Float[Tensor, "B Q K"], chunk_size: int, *, mask: Tensor | None = None
) -> Float[Tensor, "B Q K"]:
    """Return the expected weight of each key: a window ends at key k with probability α_ik, and a softmax shares its weight.

    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il), where l and j are keys that the mask allows.

    Each window has its own softmax, so scores of any size work. Cost and memory: B·Q·K·w.

    Args:
        alignments: α, the probability that each key is the last of the window.
        scores: u, any real numbers.
        chunk_size: w, ≥ 1.
        mask: Boolean, broadcasting to (B,Q,K): True where a query may attend to a key; None if it may attend to all.

    Returns:
        β (B,Q,K), of the type of α. Each row has the same sum as the row of α, if α is zero where the mask is False.

    Raises:
        ShapeError: If sizes do not match.

    Reference: Chiu & Raffel 2018, eq. 17.
    Differs from the paper: its eq. 19 uses moving sums of exp(u), in which large scores overflow and small scores beside them
    are lost.
    """
    check_shape("scores", scores, "B Q K", check_shape("alignments", alignments, "B Q K"))
    before = chunk_size - 1
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    parts = alignments[..., None] * masked_softmax(_windows(scores.to(alignments.dtype), before), _windows(allowed, before))
    # parts[i, k, l] is what the window that ends at key k gives to its l-th key, which is key k − before + l. So the last
    # parts of all windows belong to the keys themselves, and each earlier part is moved by its distance from the end.
    weights = parts[..., before]
    for back in range(1, chunk_size):
        weights = weights + nn.functional.pad(parts[..., before - back], (0, back))[..., back:]
    return weights


def _windows(x: Tensor, before: int) -> Tensor:
    """Return the entries of x in the window that ends at each key, (B,Q,K,w), w = before + 1; zeros before the first key."""
    padded = nn.functional.pad(x, (before, 0))
    return torch.stack([padded[..., first : first + x.shape[-1]] for first in range(before + 1)], -1)


@register
@dataclass(frozen=True, kw_only=True)
class ChunkMemory(Memory):
    """Prepared keys for both scorers. The fields inherited from `Memory` equal those of `monotonic`."""

    monotonic: Memory
    """Memory of the scorer that decides where a query stops."""
    chunk: Memory
    """Memory of the scorer for the keys within the window; its values have width 0."""


class ChunkOptions(MonotonicOptions, total=False):
    """Arguments of the forms of monotonic attention that `ChunkedAttention` passes on to them."""

    noise: float


class ChunkedAttention(MonotonicAttention):
    """Base class of both forms of MoChA: monotonic attention with a second scorer, for the keys within a window.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        chunk_size: w, the number of keys in a window, ≥ 1. The paper uses 2 for speech and 8 for texts.
        chunk_scorer: Mechanism whose scores are u (its normalizer is not used); None for another `WeightNormAdditive`. The
            paper adds an offset, which cancels in the softmax.
        options: Further arguments: key_size, scorer, initial_offset, device and dtype (`MonotonicAttention`), and, for `MoChA`,
            noise (`SoftMonotonic`).
    """

    def __init__(
        self,
        query_size: int,
        *,
        chunk_size: int,
        chunk_scorer: ScoredAttention | None = None,
        **options: Unpack[ChunkOptions],
    ) -> None:
        super().__init__(query_size, **options)  # type: ignore[misc]  # `noise` goes to `SoftMonotonic`
        self.chunk_size = check_size(type(self).__name__, "chunk_size", chunk_size)
        self.chunk_scorer = self.build_scorer("chunk_scorer", chunk_scorer, query_size, self.key_size, **factory(options))

    def prepare(self, key: Tensor, value: Tensor | None = None, *, key_mask: Tensor | None = None) -> ChunkMemory:
        """Project the keys once for each of the two scorers."""
        memory = super().prepare(key, value, key_mask=key_mask)
        chunk = self.chunk_scorer.prepare(key, key[..., :0], key_mask=key_mask)
        return ChunkMemory(key=memory.key, value=memory.value, key_mask=key_mask, monotonic=memory, chunk=chunk)

    def weigh(self, query: Tensor, memory: Memory, state: Any, masks: Masks, reweight: Reweight | None) -> Weighed:
        """Return the weights of each query, in order; the bias is added to e and to u."""
        assert isinstance(memory, ChunkMemory)
        allowed = masks.allowed
        alignments, state = self.alignments(self.energies(query, memory.monotonic, masks), state, allowed)
        scores = self.chunk_scorer.scores(query, memory.chunk)
        scores = scores if masks.bias is None else scores + masks.bias
        weights = expected_chunks(alignments, scores, self.chunk_size, mask=allowed).to(memory.value.dtype)
        return Weighed(finish_weights(weights, masks, reweight), state)


class MoChA(ChunkedAttention, SoftMonotonic):
    """Monotonic chunkwise attention in expectation: the softmax of each window, times the probability α of the window.

    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il), with α as in `SoftMonotonic` and u = chunk_scorer(q, k).

    A window has w positions; masked keys in it get no weight, and earlier keys do not replace them. A row of weights sums to 1
    minus the probability that the query did not stop at any key.

    `hard()` returns the form for decoding, `HardMoChA`, whose parameters have the same names.

    Reference: Chiu & Raffel 2018, eqs. 17 and 20 to 26.

    The arguments are those of `ChunkedAttention`.

    Example:
        >>> context, weights = MoChA(256, chunk_size=4)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    def hard(self) -> "HardMoChA":
        """Return the form for decoding, which shares the parameters of this module."""
        hard = HardMoChA(self.query_size, chunk_size=self.chunk_size, scorer=self.scorer, chunk_scorer=self.chunk_scorer)
        hard._parameters["offset"] = self.offset  # `hard.offset = …` would refuse the tensor of a `functional_call`
        return hard.train(self.training)


class HardMoChA(ChunkedAttention, HardMonotonic):
    """Monotonic chunkwise attention for decoding: a softmax over the window that ends where the query stops.

    weights_ij = exp(u_ij) / Σ_{l=t_i−w+1..t_i} exp(u_il) for t_i − w < j ≤ t_i, with t as in `HardMonotonic`; all are zero if
    the query did not stop.

    The choice of the window has no gradient. Therefore train `MoChA` and call its `hard()`, or load its state dict.

    Reference: Chiu & Raffel 2018, algorithm 1.
    Differs from the paper: the scores of all keys are computed at once. A query with p = ½ does not stop, as in the paper's
    text; in the paper's algorithm, it stops.

    The arguments are those of `ChunkedAttention`.

    Example:
        >>> context, weights = HardMoChA(256, chunk_size=4)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """
