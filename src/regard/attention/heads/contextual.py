"""Contextual positions (CoPE): the position of a key is the sum of the query's gates for this key and all later keys.

    p_ij = Σ_{l ≥ j} σ(q_i·k_l / √E),    weight_ij = softmax_j(q_i·k_j / √E + q_i·e[p_ij])

In code: `contextual_positions` and `position_scores`.
"""

from typing import Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_size
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.attention.heads.options import HeadOptions
from regard.attention.masks import Masks
from regard.attention.precision import at_least_float32


def contextual_positions(
    scores: Float[Tensor, "B H Q K"], mask: Bool[Tensor, "..."] | None, last: int
) -> Float[Tensor, "B H Q K"]:
    """Return p_ij = Σ_{l ≥ j} σ(score_il) over the keys that a query may attend to, clipped to `last`."""
    gates = scores.sigmoid() if mask is None else scores.where(mask, 0).sigmoid().where(mask, 0)
    return gates.flip(-1).cumsum(-1).flip(-1).clamp(max=last)


def position_scores(
    query: Float[Tensor, "B H Q E"], table: Float[Tensor, "P E"], positions: Float[Tensor, "B H Q K"]
) -> Float[Tensor, "B H Q K"]:
    """Return q_i·e[p_ij], interpolated between the whole positions below and above p_ij; e is `table`."""
    products = (query @ table.mT).to(positions.dtype)  # (B,H,Q,P)
    below = positions.detach().floor()
    share = positions - below
    low, high = (products.gather(-1, index.long()) for index in (below, positions.detach().ceil()))
    return (1 - share) * low + share * high


class ContextualPositionAttention(MultiHead):
    """p_ij = Σ_{l ≥ j} σ(q_i·k_l / √E), weight_ij = softmax_j(q_i·k_j / √E + q_i·e[p_ij]) in H heads, E = D/H.

    q, k and v are those of `MultiHead`. The sum is over the keys l ≥ j that query i may attend to (if causal, up to position
    i). Each key counts with its gate σ, so that a position can count words or sentences instead of tokens. Positions are
    clipped to P − 1. Between whole positions, q·e is interpolated. e (P,E) has a learned vector for each whole position; it is
    zero at first, and all heads share it. Context (B,Q,D), weights (B,H,Q,K).

    Reference: Golovneva et al. 2024, "Contextual position encoding: learning to count what's important", eqs. 3–5. Gates and
    q·k have the scale 1/√E, q·e has none, as in the authors' code.
    Differs from the paper: the paper has the causal form only; the maps have biases, unless `bias` is False.

    Args:
        num_positions: P, number of positions, ≥ 1.

    The other arguments are those of `MultiHead`.

    Example:
        >>> context, weights = ContextualPositionAttention(512, 8, causal=True)(torch.randn(2, 9, 512))
    """

    permutation_equivariant = False
    changes_weights = True

    def __init__(self, size: int, num_heads: int, *, num_positions: int = 64, **options: Unpack[HeadOptions]) -> None:
        super().__init__(size, num_heads, **options)
        self.num_positions = check_size("ContextualPositionAttention", "num_positions", num_positions)
        table = torch.zeros(num_positions, self.head_size, device=options.get("device"), dtype=options.get("dtype"))
        self.position_table = nn.Parameter(table)

    def change_scores(
        self, scores: Float[Tensor, "B H Q K"], *, query: Float[Tensor, "B H Q E"], memory: HeadMemory, masks: Masks
    ) -> Float[Tensor, "B H Q K"]:
        """Return q_i·k_j / √E + q_i·e[p_ij]."""
        scores = at_least_float32(scores)
        positions = contextual_positions(scores, masks.allowed, self.num_positions - 1)
        return scores + position_scores(query, self.position_table.to(query.dtype), positions)
