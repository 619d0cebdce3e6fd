"""MoChA, monotonic chunkwise attention, in expectation: a softmax over each window, weighed by where windows may end.

    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il)        (α: see `soft_monotonic`; u = chunk_scorer(q, k))

In code: `expected_chunks`. The window lets a model reorder and average within reach, which monotonic attention alone cannot;
with w = 1 it is monotonic attention. This is the form for training; `hard_mocha` is for decoding, with the same parameters.
"""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.base import AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.chunks import ChunkedAttention, ChunkMemory
from regard.attention.hard_mocha import HardMoChA
from regard.attention.normalizers import masked_softmax
from regard.attention.scored import ScoredAttention
from regard.attention.soft_monotonic import SoftMonotonic, SoftMonotonicState
from regard.shapes import check_shape


def expected_chunks(
    alignments: Float[Tensor, "B Q K"], scores: Float[Tensor, "B Q K"], chunk_size: int, *, mask: Tensor | None = None
) -> Float[Tensor, "B Q K"]:
    """Return the weight of each key, where a window that ends at key k has the probability α_ik and a softmax inside.

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
    """Return (B,Q,K,w): the window that ends at each key, from its first key to its last; zeros before the first key of all."""
    padded = nn.functional.pad(x, (before, 0))
    return torch.stack([padded[..., first : first + x.shape[-1]] for first in range(before + 1)], -1)


class MoChA(ChunkedAttention, SoftMonotonic):
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
        """Return the form for decoding, with the same parameters: not a copy of them."""
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
