"""Monotonic attention: each query scans on from where the previous one stopped, so that the alignment never goes back.

The process (Raffel et al. 2017, section 2.2): query i visits the keys j = t_{i−1}, t_{i−1}+1, … one by one, stops at each with
probability p_ij = σ(e_ij), and takes the value of the key t_i at which it stops. If it stops at no key, its context is zero.

    e_ij = scorer(q_i, k_j) + r,    p_ij = σ(e_ij)          `stopping_energies`
    t_i = min {j ≥ t_{i−1} : p_ij > ½}                      `HardMonotonic`, in code: `stopping_points`
    α_ij = p_ij q_ij,    q_ij = (1 − p_i,j−1) q_i,j−1 + α_i−1,j,    α_0 = [1, 0, …]      `SoftMonotonic`: `plain_alignments`

The soft form is the expectation of this process: α_ij is the probability that query i stops at key j, and q_ij that it reaches
key j: it reached key j−1 and continued, or the previous query stopped at j. It has gradients, for training. The hard form is
for decoding, with the same parameters. In `mocha`, a query also attends to a window before the key t_i.

Masked keys are skipped (p = 0). A query that stops at no key ends the process: all later queries have zero weights too.
Therefore, a query whose keys are all masked also ends the process. In the soft form, the process ends with some probability at
each query, and the weights of the next query sum to at most the probability that the process has not ended yet.
"""

from abc import abstractmethod
from typing import Any, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_number
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight
from regard.attention.fast.monotonic import scanned_alignments
from regard.attention.learned import factory
from regard.attention.masks import NO_MASKS, Masks
from regard.attention.ordered.scorer import ScorerAttention, ScorerOptions
from regard.attention.ordered.states import HistoryState, PositionState
from regard.attention.scores.additive import WeightNormAdditive
from regard.attention.scores.base import Weighed, finish_weights
from regard.shapes import check_shape


def stopping_energies(scores: Float[Tensor, "B Q K"], offset: Float[Tensor, ""]) -> Float[Tensor, "B Q K"]:
    """Return e = score + r (`offset`), the logit of the probability of stopping at a key, in at least float32."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32)) + offset


def plain_alignments(
    stop: Float[Tensor, "B Q K"], go_on: Float[Tensor, "B Q K"], previous: Float[Tensor, "B K"]
) -> Float[Tensor, "B Q K"]:
    """Return α from p (`stop`), 1 − p (`go_on`) and α_0 (`previous`), as in the recurrence."""
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

    Cost: B·Q·K·log₂ K multiply-adds in Q·log₂ K steps; with gradients, it stores B·Q·K·log₂ K numbers (`fast.monotonic`).

    Args:
        energies: e, before the sigmoid. Half types are computed in float32.
        previous: α_0, the alignment of the query before the first one; None to start at the first key.
        mask: Boolean, broadcasting to (B,Q,K): True where a query may stop; None if it may stop anywhere.

    Returns:
        α (B,Q,K), in [0, 1]. 1 minus the sum of a row is the probability that the query stops at no key.

    Raises:
        ShapeError: If sizes do not match.

    Reference: Raffel et al. 2017, eqs. 9 to 14.
    Differs from the paper: its closed form, cumprod(1 − p) · cumsum(α / cumprod(1 − p)) (appendix C), divides by a product that
    underflows, and needs clamping. The scan does not.
    """
    sizes = check_shape("energies", energies, "B Q K")
    energies = energies.to(torch.promote_types(energies.dtype, torch.float32))
    if mask is not None:
        energies = energies.masked_fill(~mask, -torch.inf)  # masked keys get p = 0 and no gradient
    if previous is None:
        previous = _at_the_first_key(energies)
    check_shape("previous", previous, "B K", sizes)
    # 1 − p is computed as σ(−e), because the difference would lose digits where p is nearly 1.
    return scanned_alignments(energies.sigmoid(), (-energies).sigmoid(), previous)


def stopping_points(
    energies: Float[Tensor, "B Q K"], previous: Int[Tensor, " B"] | None = None, *, mask: Tensor | None = None
) -> Int[Tensor, "B Q"]:
    """Return the key at which each query stops, in order: the first j ≥ t_{i−1} with p_ij = σ(e_ij) > ½.

    Args:
        energies: e, before the sigmoid.
        previous: t_0 (B), the key at which the query before these stopped; None to start at the first key.
        mask: Boolean, broadcasting to (B,Q,K): True where a query may stop; None if it may stop anywhere.

    Returns:
        t (B,Q), from 0 to K and never decreasing; K for a query that did not stop.

    Raises:
        ShapeError: If sizes do not match.

    Reference: Raffel et al. 2017, algorithm 1.
    """
    sizes = check_shape("energies", energies, "B Q K")
    if previous is None:
        previous = torch.zeros(sizes["B"], dtype=torch.long, device=energies.device)
    check_shape("previous", previous, "B", sizes)
    chosen = energies > 0 if mask is None else (energies > 0) & mask
    chosen = nn.functional.pad(chosen, (0, 1), value=True)  # a query that finds no key stops after the last key
    index = torch.arange(sizes["K"] + 1, device=energies.device)
    points = []
    for i in range(sizes["Q"]):
        reachable = chosen[:, i] & (index >= previous[:, None])
        previous = torch.where(reachable, index, index[-1]).amin(-1)
        points.append(previous)
    return torch.stack(points, 1) if points else previous[:, None][:, :0]


class MonotonicOptions(ScorerOptions, total=False):
    """Arguments of `MonotonicAttention` that subclasses pass on to it, documented there."""

    initial_offset: float


class MonotonicAttention(ScorerAttention):
    """Base class of monotonic attention, with the energies e_ij = scorer(q_i, k_j) + r.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        initial_offset: Initial value of r. Use lower values for longer sources, so that queries can reach the last key: the
            papers use −4 for speech and −1 for texts.
        options: Further arguments of `ScorerAttention`: key_size, scorer, device and dtype. The normalizer of the scorer is not
            used; without a scorer, it is a `WeightNormAdditive`, as in the paper.
    """

    default_scorer = WeightNormAdditive
    normalized = False
    sequential: bool = True
    stateful: bool = True

    def __init__(self, query_size: int, *, initial_offset: float = -1.0, **options: Unpack[ScorerOptions]) -> None:
        super().__init__(query_size, **options)
        start = float(check_number(type(self).__name__, "initial_offset", initial_offset))
        self.offset = nn.Parameter(torch.tensor(start, **factory(options)))

    def energies(self, query: Float[Tensor, "B Q Dq"], memory: Memory, masks: Masks = NO_MASKS) -> Float[Tensor, "B Q K"]:
        """Return e = scorer(q, k) + bias + r for all queries at once, in at least float32."""
        scores = self.scorer.scores(query, memory)
        return stopping_energies(scores if masks.bias is None else scores + masks.bias, self.offset)

    @abstractmethod
    def alignments(
        self, energies: Float[Tensor, "B Q K"], state: Any, mask: Bool[Tensor, "..."] | None
    ) -> tuple[Float[Tensor, "B Q K"], Any]:
        """Return the probability that each query stops at each key, in order, and the state after the last query."""

    def weigh(self, query: Tensor, memory: Memory, state: Any, masks: Masks, reweight: Reweight | None) -> Weighed:
        """Return the probability that each query stops at each key, in order."""
        weights, state = self.alignments(self.energies(query, memory, masks), state, masks.allowed)
        return Weighed(finish_weights(weights.to(memory.value.dtype), masks, reweight), state)


class SoftMonotonic(MonotonicAttention):
    """Monotonic attention in expectation: weights = α, the probability that a query stops at each key.

    α_ij = p_ij Σ_{k≤j} α_i−1,k Π_{l=k..j−1} (1 − p_il),  p_ij = σ(e_ij + ε),  e_ij = scorer(q_i, k_j) + r,  α_0 = [1, 0, …].

    In training mode, ε is Gaussian noise, which drives p towards 0 or 1, as the hard form needs; it is drawn from PyTorch's
    global random generator. In evaluation mode, ε is zero. α is computed with a fast form of `plain_alignments`; see
    `expected_alignments` for the cost. A row of weights sums to 1 minus the probability that the query stopped at no key.

    `hard()` returns the form for decoding, `HardMonotonic`, whose parameters have the same names.

    Reference: Raffel et al. 2017, section 2.3 and eqs. 9 to 14; the energy is from appendix G.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        noise: Standard deviation of ε in training mode, ≥ 0.
        options: Further arguments of `MonotonicAttention`: key_size, scorer, initial_offset, device and dtype.

    Example:
        >>> context, weights = SoftMonotonic(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    def __init__(self, query_size: int, *, noise: float = 1.0, **options: Unpack[MonotonicOptions]) -> None:
        super().__init__(query_size, **options)
        self.noise = check_number(type(self).__name__, "noise", noise, least=0)

    def hard(self) -> "HardMonotonic":
        """Return the form for decoding, which shares the parameters of this module."""
        hard = HardMonotonic(self.query_size, scorer=self.scorer)
        hard._parameters["offset"] = self.offset  # `hard.offset = …` would refuse the tensor of a `functional_call`
        return hard.train(self.training)

    def alignments(
        self, energies: Float[Tensor, "B Q K"], state: HistoryState | None, mask: Bool[Tensor, "..."] | None
    ) -> tuple[Float[Tensor, "B Q K"], HistoryState]:
        """Return α of each query in at least float32, and the state after the last query."""
        if self.training and self.noise:
            energies = energies + self.noise * torch.randn_like(energies)
        previous = _at_the_first_key(energies) if state is None else state.history
        alignments = expected_alignments(energies, previous, mask=mask)
        return alignments, HistoryState(alignments[:, -1] if alignments.shape[1] else previous)


class HardMonotonic(MonotonicAttention):
    """Monotonic attention for decoding: a query takes the value of the first key with p > ½, and the next query starts there.

    t_i = min {j ≥ t_{i−1}: σ(e_ij) > ½},  e_ij = scorer(q_i, k_j) + r,  context_i = value at t_i, or zero without such a j.

    The choice of the key has no gradient. Therefore train `SoftMonotonic` and call its `hard()`, or load its state dict. Cost:
    the energies of all keys, B·Q·K comparisons, and the weighted sum.

    Reference: Raffel et al. 2017, algorithm 1, with p > ½ instead of a random draw, as in the paper's decoding.
    Differs from the paper: the energies of all keys are computed at once, not one by one as the scan reaches them.

    The arguments are those of `MonotonicAttention`.

    Example:
        >>> context, weights = HardMonotonic(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    def alignments(
        self, energies: Float[Tensor, "B Q K"], state: PositionState | None, mask: Bool[Tensor, "..."] | None
    ) -> tuple[Float[Tensor, "B Q K"], PositionState]:
        """Return 1 for the key at which each query stops, and the state after the last query."""
        previous = energies.new_zeros(energies.shape[0], dtype=torch.long) if state is None else state.position
        points = stopping_points(energies, previous, mask=mask)
        chosen = points[..., None] == torch.arange(energies.shape[2], device=energies.device)
        return chosen.to(energies.dtype), PositionState(points[:, -1] if points.shape[1] else previous)


class SoftToHard(Attention):
    """`SoftMonotonic` or `MoChA` in training mode, and its `hard()` form, with the same parameters, in evaluation mode.

    A state is valid only in the mode in which it was made, so switch modes between sequences only.

    Reference: Raffel et al. 2017, section 2.3; Chiu & Raffel 2018, section 2.2.
    """

    normalized: bool = False
    permutation_equivariant: bool = False
    stateful: bool = True

    def __init__(self, soft: SoftMonotonic) -> None:
        super().__init__()
        self.soft = soft
        self.query_size, self.key_size = soft.query_size, soft.key_size

    def form(self) -> Attention:
        """Return the soft form in training mode, else the hard form."""
        return self.soft if self.training else self.soft.hard()

    def prepare(self, key: Tensor, value: Tensor | None = None, *, key_mask: Tensor | None = None) -> Memory:
        """Project the keys once, for both forms."""
        return self.soft.prepare(key, value, key_mask=key_mask)

    def attend(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, state: Any = None, **options: Any
    ) -> tuple[AttentionOutput, Any]:
        """Attend with each query in order, with the form of the current mode; see `Attention.attend`."""
        return self.form().attend(query, memory, state, **options)


def _at_the_first_key(energies: Float[Tensor, "B Q K"]) -> Float[Tensor, "B K"]:
    """Return α_0, which is 1 at the first key and 0 at all others."""
    first = torch.arange(energies.shape[2], device=energies.device) == 0
    return first.to(energies.dtype).expand(energies.shape[0], -1)
