"""Monotonic attention in expectation, for training: weights = α, the probability that a query stops at each key.

    α_ij = p_ij q_ij,    q_ij = (1 − p_i,j−1) q_i,j−1 + α_i−1,j,    p = σ(e),    α_0 = [1, 0, …]        (e: see `monotonic`)

q_ij is the probability that query i reaches key j: it reached key j−1 and continued, or the previous query stopped at j. In
code: `plain_alignments`.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.arguments import check_finite
from regard.attention.base import Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.hard_monotonic import HardMonotonic
from regard.attention.kernels.monotonic import scanned_alignments
from regard.attention.monotonic import MonotonicAttention
from regard.attention.scored import ScoredAttention, Weighed
from regard.errors import ConfigError
from regard.shapes import check_shape


def plain_alignments(
    stop: Float[Tensor, "B Q K"], go_on: Float[Tensor, "B Q K"], previous: Float[Tensor, "B K"]
) -> Float[Tensor, "B Q K"]:
    """Return α from p (`stop`), 1 − p (`go_on`) and α_0 (`previous`), one query and one key at a time, as in the recurrence."""
    rows = []
    for p, not_p in zip(stop.unbind(1), go_on.unbind(1), strict=True):
        reached = [previous[:, 0]]  # q, the probability that the query reaches each key
        for j in range(1, previous.shape[1]):
            reached.append(not_p[:, j - 1] * reached[-1] + previous[:, j])
        previous = p * torch.stack(reached, 1)  # α of this query
        rows.append(previous)
    return torch.stack(rows, 1)


def expected_alignments(
    energies: Float[Tensor, "B Q K"],
    previous: Float[Tensor, "B K"] | None = None,
    *,
    mask: Tensor | None = None,
) -> Float[Tensor, "B Q K"]:
    """Return the probability that query i stops at key j, for all queries in order.

    α_ij = p_ij q_ij,  q_ij = (1 − p_i,j−1) q_i,j−1 + α_i−1,j = Σ_{k≤j} α_i−1,k Π_{l=k..j−1} (1 − p_il),  p = σ(e).

    `kernels.monotonic` computes the recurrence over keys in log₂ K steps. Cost: B·Q·K·log₂ K multiply-adds in Q·log₂ K steps;
    with gradients, it stores B·Q·K·log₂ K numbers.

    Args:
        energies: e, before the sigmoid. Half types are computed in float32.
        previous: α_0, the alignment of the query before the first one; None to start at the first key.
        mask: Boolean, broadcasting to (B,Q,K): True where a query may stop; None if it may stop anywhere.

    Returns:
        α (B,Q,K), in [0, 1]. Each row sums to at most the sum of the row before. 1 minus the sum of a row is the probability
        that the query stops at no key.

    Raises:
        ShapeError: If sizes do not match.

    Reference: Raffel et al. 2017, eqs. 9 to 14.
    Differs from the paper: its closed form, cumprod(1 − p) · cumsum(α / cumprod(1 − p)) (appendix C), divides by a product that
    underflows, and needs clamping. The scan needs no division and no clamping.
    """
    sizes = check_shape("energies", energies, "B Q K")
    energies = energies.to(torch.promote_types(energies.dtype, torch.float32))
    if mask is not None:
        energies = energies.masked_fill(~mask, -torch.inf)  # masked keys get p = 0 and no gradient
    if previous is None:
        previous = _at_the_first_key(energies)
    check_shape("previous", previous, "B K", sizes)
    return scanned_alignments(energies.sigmoid(), (-energies).sigmoid(), previous)


@dataclass(frozen=True)
class SoftMonotonicState:
    """State of a soft monotonic mechanism: the probability that the last query stopped at each key."""

    alignment: Float[Tensor, "B K"]
    """α of the last query, in float32 or float64."""

    def select(self, index: Int[Tensor, " M"]) -> "SoftMonotonicState":
        """Keep the given rows of the batch, in the given order."""
        return SoftMonotonicState(self.alignment[index])


torch.export.register_dataclass(SoftMonotonicState, serialized_type_name="regard.attention.SoftMonotonicState")


class SoftMonotonic(MonotonicAttention):
    """Monotonic attention in expectation: weights = α, the probability that a query stops at each key.

    α_ij = p_ij Σ_{k≤j} α_i−1,k Π_{l=k..j−1} (1 − p_il),  p_ij = σ(e_ij + ε),  e_ij = scorer(q_i, k_j) + r,  α_0 = [1, 0, …].

    In training mode, ε is Gaussian noise, which drives p towards 0 or 1, as the hard form needs; it is drawn from PyTorch's
    global random generator. In evaluation mode, ε is zero. The energies of all queries are computed at once, and α query by
    query; see `expected_alignments` for the cost. A row of weights sums to 1 minus the probability that the query stopped at no
    key.

    `hard()` returns the form for decoding, `HardMonotonic`. Both forms give their parameters the same names. Therefore, if
    `soft` is a `SoftMonotonic`, `HardMonotonic(…).load_state_dict(soft.state_dict())` works too.

    Reference: Raffel et al. 2017, section 2.3 and eqs. 9 to 14; the energy is from appendix G.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for the scorer's, or Dq without a scorer.
        scorer: Mechanism whose scores, plus r, are the energies e (its normalizer is not used); None for `WeightNormAdditive`,
            as in the paper.
        initial_offset: Initial value of r. Use lower values for longer sources, so that queries can reach the last key: the
            papers use −4 for speech and −1 for texts.
        noise: Standard deviation of ε in training mode, ≥ 0.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, the scorer has other widths, a state or dropout,
            `initial_offset` is not finite, or the noise is negative or not finite.

    Example:
        >>> attention = SoftMonotonic(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
        >>> bool((weights.sum(-1) <= 1.0001).all())  # the rest is the probability of not stopping
        True
    """

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        scorer: ScoredAttention | None = None,
        initial_offset: float = -1.0,
        noise: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size, key_size=key_size, scorer=scorer, initial_offset=initial_offset, device=device, dtype=dtype
        )
        self.noise = check_noise(type(self).__name__, noise)

    def hard(self) -> "HardMonotonic":
        """Return the form for decoding, which shares the parameters of this module."""
        hard = HardMonotonic(self.query_size, scorer=self.scorer)
        hard.offset = self.offset
        return hard.train(self.training)

    def alignments(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: SoftMonotonicState | None,
        mask: Tensor | None,
        score_bias: Tensor | None = None,
    ) -> tuple[Float[Tensor, "B Q K"], SoftMonotonicState]:
        """Return α of each query in at least float32, and the state after the last query."""
        energies = self.energies(query, memory, score_bias)
        if self.training and self.noise:
            energies = energies + self.noise * torch.randn_like(energies)
        previous = _at_the_first_key(energies) if state is None else state.alignment
        alignments = expected_alignments(energies, previous, mask=mask)
        return alignments, SoftMonotonicState(alignments[:, -1] if alignments.shape[1] else previous)

    def weigh(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: SoftMonotonicState | None,
        mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        reweight: Reweight | None,
    ) -> Weighed:
        """Return α of each query, in order."""
        alignments, state = self.alignments(query, memory, state, mask, score_bias)
        return Weighed(reweighted(alignments.to(memory.value.dtype), mask, reweight), state)


def check_noise(called: str, noise: float) -> float:
    """Return the standard deviation of the noise; raise an error if it is negative.

    Raises:
        ConfigError: If the noise is negative or not a finite number.
    """
    check_finite(called, "noise", noise)
    if noise < 0:
        raise ConfigError(f"{called}(noise={noise}): noise is a standard deviation and must be 0 or more")
    return noise


def _at_the_first_key(energies: Float[Tensor, "B Q K"]) -> Float[Tensor, "B K"]:
    """Return α_0, which is 1 at the first key and 0 at all others."""
    first = torch.arange(energies.shape[2], device=energies.device) == 0
    return first.to(energies.dtype).expand(energies.shape[0], -1)
