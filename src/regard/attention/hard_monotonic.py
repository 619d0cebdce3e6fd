"""Monotonic attention for decoding: each query stops at one key, and the next query starts from there.

    t_i = min {j ≥ t_{i−1} : σ(e_ij) > ½},    context_i = value at t_i        (e: see `monotonic`; zero if there is no such j)

In code: `stopping_points`.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.monotonic import MonotonicAttention
from regard.attention.scored import Weighed
from regard.shapes import check_shape


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


@dataclass(frozen=True)
class HardMonotonicState:
    """State of a hard monotonic mechanism: where the last query stopped."""

    position: Int[Tensor, " B"]
    """The key t at which the last query stopped; K if this query or an earlier one did not stop."""

    def select(self, index: Int[Tensor, " M"]) -> "HardMonotonicState":
        """Keep the given rows of the batch, in the given order."""
        return HardMonotonicState(self.position[index])


torch.export.register_dataclass(HardMonotonicState, serialized_type_name="regard.attention.HardMonotonicState")


class HardMonotonic(MonotonicAttention):
    """Monotonic attention for decoding: a query takes the value of the first key with p > ½, and the next query starts there.

    t_i = min {j ≥ t_{i−1}: σ(e_ij) > ½},  e_ij = scorer(q_i, k_j) + r,  context_i = value at t_i, or zero without such a j.

    Only the values have gradients; the choice of the key has none. Therefore train `SoftMonotonic` and call its `hard()`, or
    load its state dict. Cost: the energies of all keys, B·Q·K comparisons, and the weighted sum.

    Reference: Raffel et al. 2017, algorithm 1, with p > ½ instead of a random draw, as in the paper's decoding.
    Differs from the paper: the energies of all keys are computed at once, not one by one as the scan reaches them.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for the scorer's, or Dq without a scorer.
        scorer: Mechanism whose scores, plus r, are the energies e; None for `WeightNormAdditive`, as in the paper.
        initial_offset: Value of r until trained parameters are loaded.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, the scorer has other widths, a state or dropout, or
            `initial_offset` is not finite.

    Example:
        >>> attention = HardMonotonic(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    def weigh(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: HardMonotonicState | None,
        mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        reweight: Reweight | None,
    ) -> Weighed:
        """Return 1 for the key at which each query stops, in order."""
        points, state = self.points(query, memory, state, mask, score_bias)
        weights = points[..., None] == torch.arange(memory.value.shape[1], device=points.device)
        return Weighed(reweighted(weights.to(memory.value.dtype), mask, reweight), state)

    def points(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: HardMonotonicState | None,
        mask: Tensor | None,
        score_bias: Tensor | None = None,
    ) -> tuple[Int[Tensor, "B Q"], HardMonotonicState]:
        """Return the key at which each query stops, and the state after the last query."""
        previous = query.new_zeros(query.shape[0], dtype=torch.long) if state is None else state.position
        points = stopping_points(self.energies(query, memory, score_bias), previous, mask=mask)
        return points, HardMonotonicState(points[:, -1] if points.shape[1] else previous)
