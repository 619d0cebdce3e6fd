"""Monotonic attention: each query scans on from where the previous one stopped, so that the alignment never goes back.

The process (Raffel et al. 2017, section 2.2): query i visits the keys j = t_{i−1}, t_{i−1}+1, … one by one, stops at each with
probability p_ij = σ(e_ij), and takes the value of the key t_i at which it stops. If it stops at no key, its context is zero.

    e_ij = scorer(q_i, k_j) + r,    p_ij = σ(e_ij)          `stopping_energies`

`soft_monotonic` computes the expectation of this process, which has gradients, for training. `hard_monotonic` stops where p_ij
> ½, for decoding, with the same parameters. In `mocha` and `hard_mocha`, a query also attends to a window before that key.

Masked keys are skipped (p = 0). A query that stops at no key ends the process: all later queries have zero weights too, in the
soft and in the hard form. A query whose keys are all masked therefore ends it as well.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_instance, check_number, check_size
from regard.attention.base import Attention, Memory
from regard.attention.masks import add_bias
from regard.attention.scored import ScoredAttention
from regard.attention.weight_norm import WeightNormAdditive
from regard.errors import ConfigError


def stopping_energies(scores: Float[Tensor, "B Q K"], offset: Float[Tensor, ""]) -> Float[Tensor, "B Q K"]:
    """Return e = score + r in at least float32, the logit of the probability to stop."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32)) + offset


class MonotonicAttention(Attention):
    """Base of the soft and the hard forms, with the energies e_ij = scorer(q_i, k_j) + r."""

    normalized = False
    sequential: bool = True
    permutation_equivariant: bool = False
    stateful: bool = True

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None,
        scorer: ScoredAttention | None,
        initial_offset: float,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_number(type(self).__name__, "initial_offset", initial_offset)
        self.scorer = checked_scorer(type(self).__name__, "scorer", query_size, key_size, scorer, device=device, dtype=dtype)
        self.query_size, self.key_size = query_size, self.scorer.key_size
        self.offset = nn.Parameter(torch.tensor(float(initial_offset), device=device, dtype=dtype))

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Memory:
        """Project the keys once, as the scorer does."""
        return self.scorer.prepare(key, value, key_mask=key_mask)

    def energies(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, score_bias: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Return e = scorer(q, k) + bias + r for all queries at once, in at least float32."""
        return stopping_energies(add_bias(self.scorer.scores(query, memory), score_bias), self.offset)


def checked_scorer(
    called: str,
    name: str,
    query_size: int,
    key_size: int | None,
    scorer: ScoredAttention | None,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ScoredAttention:
    """Return the given scorer, or the scorer of the paper, built for the device and dtype.

    Raises:
        ConfigError: If the given object is not a scorer, or has other widths or a state.
    """
    check_size(called, "query_size", query_size)
    if scorer is None:
        return WeightNormAdditive(query_size, key_size=key_size, device=device, dtype=dtype)
    check_instance(called, name, scorer, ScoredAttention, "Additive(256)")
    if scorer.stateful:
        raise ConfigError(
            f"{called}({name}={type(scorer).__name__}): expected a {name} without a state, such as General, Dot or Additive"
        )
    if scorer.dropout:
        raise ConfigError(
            f"{called}({name}={type(scorer).__name__}(dropout={scorer.dropout})): only the scores of a {name} are used, "
            "not its weights; build it without dropout"
        )
    for size, wanted, has in (
        ("query_size", query_size, scorer.query_size),
        ("key_size", scorer.key_size if key_size is None else key_size, scorer.key_size),
    ):
        if wanted != has:
            raise ConfigError(
                f"{called}({size}={wanted}, {name}={type(scorer).__name__}({size}={has})): "
                f"build the {name} with {size}={wanted}"
            )
    return scorer
