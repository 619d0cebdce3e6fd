"""The expectation of MoChA (monotonic chunkwise attention): softmaxes over windows, weighted by the probability of each window.

    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il)        (α: see `soft_monotonic`; u = chunk_scorer(q, k))

In code: `expected_chunks`. Within a window of w keys, a model can reorder and average keys; monotonic attention alone, which is
the case w = 1, cannot. This form is for training; `hard_mocha` is for decoding, with the same parameters.
"""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.hard_mocha import ChunkedAttention, ChunkMemory, HardMoChA
from regard.attention.masks import add_bias
from regard.attention.normalizers import masked_softmax
from regard.attention.scored import ScoredAttention, Weighed
from regard.attention.soft_monotonic import SoftMonotonic, SoftMonotonicState
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
    weights = parts[..., before]
    for back in range(1, chunk_size):
        weights = weights + nn.functional.pad(parts[..., before - back], (0, back))[..., back:]
    return weights


def _windows(x: Tensor, before: int) -> Tensor:
    """Return the entries of x in the window that ends at each key, (B,Q,K,w), w = before + 1; zeros before the first key."""
    padded = nn.functional.pad(x, (before, 0))
    return torch.stack([padded[..., first : first + x.shape[-1]] for first in range(before + 1)], -1)


class MoChA(ChunkedAttention, SoftMonotonic):
    """Monotonic chunkwise attention in expectation.

    Weights = β, the sum of the softmaxes within all windows, each multiplied by the probability α of its window.

    β_ij = Σ_{k=j..j+w−1} α_ik exp(u_ij) / Σ_{l=k−w+1..k} exp(u_il), with α as in `SoftMonotonic` and u = chunk_scorer(q, k).

    Cost: as `SoftMonotonic`, plus a second score and B·Q·K·w for the windows (see `expected_chunks`). A window has w
    positions; masked keys in it get no weight, and earlier keys do not replace them. A row of weights sums to 1 minus the
    probability that the query did not stop at any key.

    `hard()` returns the form for decoding, `HardMoChA`. Both forms give their parameters the same names. Therefore, if `soft`
    is a `MoChA`, `HardMoChA(…).load_state_dict(soft.state_dict())` works too.

    Reference: Chiu & Raffel 2018, eqs. 17 and 20 to 26.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        chunk_size: w, the number of keys in a window, ≥ 1. The paper uses 2 for speech and 8 for texts.
        key_size: Dk, width of the keys, ≥ 1; None for the scorer's, or Dq without a scorer.
        scorer: Mechanism whose scores, plus r, are the energies e (its normalizer is not used); None for `WeightNormAdditive`,
            as in the paper.
        chunk_scorer: Mechanism whose scores are u (its normalizer is not used); None for another `WeightNormAdditive`. The
            paper adds an offset, which cancels in the softmax.
        initial_offset: Initial value of r; see `SoftMonotonic`. The paper uses −4 for speech and 0 for texts.
        noise: Standard deviation of the noise that is added to the energies in training mode, ≥ 0.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width or the chunk size is not a whole number of 1 or more, a scorer has other widths, a state or
            dropout, `initial_offset` is not finite, or the noise is negative or not finite.

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
        """Return the form for decoding, which shares the parameters of this module."""
        hard = HardMoChA(self.query_size, chunk_size=self.chunk_size, scorer=self.scorer, chunk_scorer=self.chunk_scorer)
        hard.offset = self.offset
        return hard.train(self.training)

    def weigh(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: SoftMonotonicState | None,
        mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        reweight: Reweight | None,
    ) -> Weighed:
        """Return β of each query, in order; `score_bias` is added to e and to u."""
        memory = cast(ChunkMemory, memory)
        alignments, state = self.alignments(query, memory.monotonic, state, mask, score_bias)
        scores = add_bias(self.chunk_scorer.scores(query, memory.chunk), score_bias)
        weights = expected_chunks(alignments, scores, self.chunk_size, mask=mask).to(memory.value.dtype)
        return Weighed(reweighted(weights, mask, reweight), state)
