"""Monotonic attention: each query scans on from where the previous one stopped, so that the alignment never goes back.

The process (Raffel et al. 2017, section 2.2): query i visits the keys j = t_{i−1}, t_{i−1}+1, … one by one, stops at each with
probability p_ij = σ(e_ij), and takes the value of the key t_i at which it stops. If it stops at no key, its context is zero.

    e_ij = scorer(q_i, k_j) + r,    p_ij = σ(e_ij)          `stopping_energies`
    scorer(q, k) = g v/‖v‖ · tanh(W_q q + W_k k + b)        `WeightNormAdditive`, with the score weight `scaled_direction(v, g)`

`soft_monotonic` computes the expectation of this process, which has gradients, for training. `hard_monotonic` stops where p_ij
> ½, for decoding, with the same parameters. In `mocha` and `hard_mocha`, a query also attends to a window before the key t_i.

Masked keys are skipped (p = 0). A query that stops at no key ends the process: all later queries have zero weights too.
Therefore, a query whose keys are all masked also ends the process. In the soft form, the process ends with some probability at
each query, and the weights of the next query sum to at most the probability that the process has not ended yet.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.additive import AdditiveBase
from regard.attention.arguments import check_finite, check_instance, check_size
from regard.attention.base import Memory
from regard.attention.masks import add_bias
from regard.attention.scored import ScoredAttention, WeightedAttention
from regard.errors import ConfigError


def stopping_energies(scores: Float[Tensor, "B Q K"], offset: Float[Tensor, ""]) -> Float[Tensor, "B Q K"]:
    """Return e = score + r (`offset`), the logit of the probability of stopping at a key, in at least float32."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32)) + offset


def scaled_direction(vector: Float[Tensor, " Da"], gain: Float[Tensor, ""]) -> Float[Tensor, " Da"]:
    """Return g v/‖v‖, the direction of v with length g."""
    return gain * nn.functional.normalize(vector, dim=0)


class MonotonicAttention(WeightedAttention):
    """Base class of the soft and the hard forms of monotonic attention, with the energies e_ij = scorer(q_i, k_j) + r."""

    normalized = False
    sequential: bool = True
    permutation_equivariant: bool = False
    stateful: bool = True

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        scorer: ScoredAttention | None = None,
        initial_offset: float = -1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_finite(type(self).__name__, "initial_offset", initial_offset)
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
        """Project the keys once, with the scorer."""
        return self.scorer.prepare(key, value, key_mask=key_mask)

    def energies(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, score_bias: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Return e = scorer(q, k) + bias + r for all queries at once, in at least float32."""
        return stopping_energies(add_bias(self.scorer.scores(query, memory), score_bias), self.offset)


class WeightNormAdditive(AdditiveBase):
    """Additive attention whose scores have a learned scale g: score(q, k) = g v/‖v‖ · tanh(W_q q + W_k k + b).

    Shapes: W_q (Da,Dq), W_k (Da,Dk), b and v (Da), g a scalar, initially 1/√Da.

    Reference: Raffel et al. 2017, appendix G; Chiu & Raffel 2018, eq. 13 (its offset r is a part of `SoftMonotonic` here,
    because a softmax would cancel it).

    The arguments are those of `AdditiveBase`.

    Example:
        >>> attention = WeightNormAdditive(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    supports_fused = True

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Build W_q, W_k with its bias b, and g."""
        self.query_projection = nn.Linear(self.query_size, self.attention_size, bias=False, device=device, dtype=dtype)
        self.key_projection = nn.Linear(self.key_size, self.attention_size, device=device, dtype=dtype)
        self.gain = nn.Parameter(torch.tensor(self.attention_size**-0.5, device=device, dtype=dtype))

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return W_q q."""
        return self.query_projection(query)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Da"]:
        """Return W_k k + b."""
        return self.key_projection(key)

    def score_vector(self) -> Float[Tensor, " Da"]:
        """Return scale · g v/‖v‖."""
        return scaled_direction(self.score_weight, self.gain if self.scale == 1 else self.scale * self.gain)


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
    """Check and return the given scorer; if it is None, build a `WeightNormAdditive` on the device and of the dtype.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, or the given object is not a scorer, has other widths, or
            has a state or dropout.
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
