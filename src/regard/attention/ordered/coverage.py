"""Coverage: attention whose scores depend on the total weight that each key has received so far.

    score_t(q, k) = v · tanh(W_q q + W_k k + w_c c_t + b),    loss = Σ_k min(α_tk, c_tk)
    c_t = Σ_{t' < t} α_t'                                     `Coverage`
    c_t = (1/Φ) Σ_{t' < t} α_t',    Φ = N · sigmoid(U_f·k)    `FertilityCoverage`

α_t are the weights of query t. In code: `coverage_features`, `coverage_loss` and `fertilities`.
"""

from typing import Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_number
from regard.attention.base import Memory
from regard.attention.learned import factory
from regard.attention.masks import Masks
from regard.attention.ordered.history import HistoryAttention
from regard.attention.scores.additive import AdditiveMemory, AdditiveOptions
from regard.shapes import check_shape


def coverage_features(coverage: Float[Tensor, "B K"], coverage_weight: Float[Tensor, " Da"]) -> Float[Tensor, "B K Da"]:
    """Return w_c c_j for each key j."""
    return coverage[..., None] * coverage_weight


def fertilities(logits: Float[Tensor, "B K"], max_fertility: float) -> Float[Tensor, "B K"]:
    """Return Φ = N · sigmoid(U_f·k), the number of queries that each key can serve; `logits` holds U_f·k."""
    return max_fertility * logits.to(torch.promote_types(logits.dtype, torch.float32)).sigmoid()


def coverage_loss(
    weights: Float[Tensor, "B Q K"],
    *,
    coverage: Float[Tensor, "B K"] | None = None,
    query_mask: Bool[Tensor, "B Q"] | None = None,
) -> Float[Tensor, ""]:
    """Return the cost of repeated attention to keys: the mean over queries t of Σ_k min(α_tk, c_tk).

    c_t is the weight that the keys received before query t: `coverage` plus the weights of earlier queries. The weights
    may come from any mechanism.

    Args:
        weights: α, ≥ 0.
        coverage: Weight that the keys received before the first of these queries; None for zero.
        query_mask: True for queries that count, False for padding of the target; None if all count.

    Returns:
        A scalar, at least 0 and at most 1 for weights that sum to one; 0 if no query counts.

    Raises:
        ShapeError: If sizes do not match. Average the weights of several heads first, or pass one head at a time.

    Reference: See, Liu, Manning 2017, eqs. 10 and 12.
    """
    sizes = check_shape("weights", weights, "B Q K")
    if query_mask is not None:
        check_shape("query_mask", query_mask, "B Q", sizes)
    before = weights.cumsum(1) - weights
    if coverage is not None:
        check_shape("coverage", coverage, "B K", sizes)
        before = before + coverage[:, None]
    rows = torch.minimum(weights, before).sum(-1)
    if query_mask is None:
        return rows.sum() / max(rows.numel(), 1)
    return rows.where(query_mask, 0).sum() / query_mask.sum().clamp(min=1)


class Coverage(HistoryAttention):
    """score_t(q, k) = v·tanh(W_k k + W_q q + w_c c_t + b), with the coverage c_t = Σ_{t' < t} α_t' of each key.

    `AttentionOutput.loss` is the cost of repeated attention: the mean of Σ_k min(α_tk, c_tk) over the queries of the call that
    may attend to at least one key, or 0 without such queries. A decoder that runs step by step averages the losses of its
    steps, or calls `coverage_loss` at the end on all weights, with a mask of the target's padding. Add the loss to the training
    loss, multiplied by λ (1 in the paper).

    Shapes: W_q (Da,Dq), W_k (Da,Dk), w_c, v and b (Da). The state holds c_t (B,K), zero before the first query.

    Reference: See, Liu, Manning 2017, eqs. 10–13 (W_h k, W_s q, b_attn there).
    Differs from the paper: the loss is a mean over all queries of the batch; the paper first takes the mean over each target.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        bias: Whether the sum inside the tanh has a bias b.
        options: Further arguments of `Additive`: key_size, attention_size, normalizer, scale, dropout, device and dtype.

    Example:
        >>> context, weights = Coverage(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    permutation_equivariant: bool = True
    has_loss: bool = True

    def __init__(self, query_size: int, *, bias: bool = True, **options: Unpack[AdditiveOptions]) -> None:
        super().__init__(query_size, bias=bias, **options)
        self.coverage_weight = nn.Parameter(torch.empty(self.attention_size, **factory(options)))
        nn.init.uniform_(self.coverage_weight, -1, 1)  # the initialisation of nn.Linear(1, Da)

    def extra(self, history: Float[Tensor, "B K"], memory: Memory) -> Float[Tensor, "B K Da"]:
        return coverage_features(self.coverage(history, memory), self.coverage_weight)

    def coverage(self, history: Float[Tensor, "B K"], memory: Memory) -> Float[Tensor, "B K"]:
        """Return c_t, which is the sum of the earlier weights."""
        return history

    def update(self, history: Float[Tensor, "B K"], weights: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return c_{t+1} = c_t + α_t (eq. 10)."""
        return history + weights

    def loss(self, weights: Float[Tensor, "B Q K"], history: Float[Tensor, "B K"], masks: Masks) -> Float[Tensor, ""] | None:
        """Return the loss of eq. 12, averaged over the queries that may attend to at least one key."""
        query_mask = None if masks.empty is None else (~masks.empty[..., 0]).expand(weights.shape[:2])
        return coverage_loss(weights.to(history.dtype), coverage=history, query_mask=query_mask)


class FertilityCoverage(Coverage):
    """score_t(q, k) = v·tanh(W_q q + W_k k + w_c c_t) with the coverage c_t = (1/Φ_k) Σ_{t' < t} α_t'k.

    The fertility Φ_k = N·sigmoid(U_f·k) is the number of queries (target words) that a key (source word) can serve: a key with
    fertility 2 has coverage ½ after it received a weight of 1. This is the "linguistic" coverage of the paper.

    Shapes: W_q (Da,Dq), W_k (Da,Dk), U_f (1,Dk), w_c and v (Da). The state holds Σ α (B,K), zero before the first query.

    Reference: Tu et al. 2016, section 3.1 (U_a, W_a, V_a, C, N and Φ there), with a coverage of one number for each key.
    Differs from the paper: a fertility below 2⁻¹⁰ is raised to 2⁻¹⁰, so that no division overflows.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        max_fertility: N, the maximum number of queries that a key can serve, finite and > 0 (2 in the paper).
        bias: Whether the sum inside the tanh has a bias (not in the paper).
        options: Further arguments of `Additive`: key_size, attention_size, normalizer, scale, dropout, device and dtype.

    Example:
        >>> context, weights = FertilityCoverage(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    has_loss: bool = False

    def __init__(
        self, query_size: int, *, max_fertility: float = 2.0, bias: bool = False, **options: Unpack[AdditiveOptions]
    ) -> None:
        super().__init__(query_size, bias=bias, **options)
        self.max_fertility = check_number("FertilityCoverage", "max_fertility", max_fertility, above=0)
        self.fertility_projection = nn.Linear(self.key_size, 1, bias=False, **factory(options))

    def build_memory(self, key: Tensor, value: Tensor, key_mask: Tensor | None) -> AdditiveMemory:
        """Return the projected keys, the values, and the fertilities of the keys."""
        fertility = fertilities(self.fertility_projection(key).squeeze(-1), self.max_fertility)
        return AdditiveMemory(self.project_key(key), value, key_mask, fertility=fertility)

    def coverage(self, history: Float[Tensor, "B K"], memory: Memory) -> Float[Tensor, "B K"]:
        """Return c_t = (Σ α) / Φ, where Φ is at least 2⁻¹⁰."""
        assert isinstance(memory, AdditiveMemory)
        assert memory.fertility is not None
        return history / memory.fertility.clamp(min=2**-10)

    def loss(self, weights: Float[Tensor, "B Q K"], history: Float[Tensor, "B K"], masks: Masks) -> Float[Tensor, ""] | None:
        """Return None, because the paper trains with the likelihood alone."""
        return None
