"""Additive attention: a network with one hidden layer scores each pair of query and key.

    score(q, k) = v · tanh(W_q q + W_k k)          weights = softmax_k score(q, k),    context = Σ_k weight_k value_k

In code: `plain_additive_scores`, which takes projected queries W_q q and projected keys W_k k. The layer is `Additive`; its
variants have other W_q and W_k (`concat`) or another v (`WeightNormAdditive`, with `scaled_direction`).
"""

from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_size
from regard.attention.base import AttentionOutput, Memory, register
from regard.attention.fast.additive import fast_additive_scores, is_fast, ready_exponential
from regard.attention.fast.additive_triton import fused_additive_attention, is_fused
from regard.attention.learned import factory
from regard.attention.masks import Masks, hide, resolve_masks, zero_masked, zero_rows
from regard.attention.normalizers.softmax import masked_softmax
from regard.attention.scores.base import ScoredAttention, ScoreOptions
from regard.shapes import check_shape


def plain_additive_scores(
    query: Float[Tensor, "B Q H"], key: Float[Tensor, "B K H"], score_weight: Float[Tensor, " H"]
) -> Float[Tensor, "B Q K"]:
    """Return s_ij = Σ_h v_h tanh(q_ih + k_jh) for projected queries q, keys k and v (`score_weight`)."""
    hidden = (query[:, :, None] + key[:, None]).tanh()
    return hidden @ (score_weight if score_weight.dtype == hidden.dtype else score_weight.to(hidden.dtype))


def scaled_direction(vector: Float[Tensor, " Da"], gain: Float[Tensor, ""]) -> Float[Tensor, " Da"]:
    """Return g v/‖v‖, the direction of v with length g."""
    return gain * nn.functional.normalize(vector, dim=0)


def additive_scores(
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    score_weight: Float[Tensor, " H"],
    key_exponential: Float[Tensor, "B K H"] | None = None,
) -> Float[Tensor, "B Q K"]:
    """Return s_ij = Σ_h v_h tanh(q_ih + k_jh), on a CPU without a large (B,Q,K,H) tensor.

    On a CPU, `fast.additive` computes large inputs in blocks; otherwise, also on a GPU, the scores are `plain_additive_scores`.

    Args:
        query: Projected queries W_q q.
        key: Projected keys W_k k.
        score_weight: v.
        key_exponential: `fast.additive.exponential(key)`, if many calls use the same keys; None to compute it here.

    Raises:
        ShapeError: If the sizes of an axis do not match.
    """
    sizes = check_shape("query", query, "B Q H")
    sizes = check_shape("key", key, "B K H", sizes)
    check_shape("score_weight", score_weight, "H", sizes)
    return fastest_scores(query, key, score_weight, key_exponential)


def fastest_scores(
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    score_weight: Float[Tensor, " H"],
    key_exponential: Float[Tensor, "B K H"] | None = None,
) -> Float[Tensor, "B Q K"]:
    """Return `additive_scores` of tensors that match."""
    if is_fast(query, key, key_exponential):
        return fast_additive_scores(query, key, score_weight, key_exponential)
    return plain_additive_scores(query, key, score_weight)


def additive_attention(
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    value: Float[Tensor, "B K Dv"],
    score_weight: Float[Tensor, " H"],
    *,
    key_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    need_weights: bool = True,
) -> AttentionOutput:
    """Apply additive attention to projected queries and keys: weights = softmax_j Σ_h v_h tanh(q_ih + k_jh), masked.

    Args:
        query: Projected queries.
        key: Projected keys.
        value: The values; the context (B,Q,Dv) is their weighted mean.
        score_weight: v.
        key_mask: Boolean (B,K); True where there is a key.
        attn_mask: Boolean (Q,K) or (B,Q,K); True where a query may attend to a key.
        need_weights: Whether to return the weights (B,Q,K).

    Raises:
        ShapeError: If the sizes of an axis do not match, or a mask is not boolean.

    Example:
        In a pointer network, each decoder state chooses among the encoder's states:
        `additive_attention(to_query(decoder), to_key(encoder), encoder, v, key_mask=mask).weights`.
    """
    sizes = check_shape("value", value, "B K Dv", check_shape("key", key, "B K H"))
    check_shape("score_weight", score_weight, "H", check_shape("query", query, "B Q H", sizes))
    key, value = zero_masked(key, key_mask), zero_masked(value, key_mask)
    masks = resolve_masks(key_mask, attn_mask, batch=key.shape[0], queries=query.shape[1], keys=key.shape[1])
    if is_fused(query, key, value):
        context, weights = fused_additive_attention(query, key, value, score_weight, masks.mask, need_weights=need_weights)
    else:
        weights = masked_softmax(hide(fastest_scores(query, key, score_weight), masks.mask))
        context = weights.to(value.dtype) @ value
    shown = zero_rows(weights, masks.empty) if need_weights and weights is not None else None
    return AttentionOutput(zero_rows(context, masks.empty), shown)


@register
@dataclass(frozen=True)
class AdditiveMemory(Memory):
    """Projected keys, the values, and what is computed once for each key."""

    key_exponential: Tensor | None = None
    """e^{2·key} (B,K,Da), without gradient, for decoders that attend with one query at a time; None where it saves no time."""
    fertility: Tensor | None = None
    """Φ (B,K), the number of queries that each key can serve, for `FertilityCoverage`; else None."""


class AdditiveOptions(ScoreOptions, total=False):
    """Arguments of `Additive` that subclasses pass on to it, documented there."""

    attention_size: int | None


class Additive(ScoredAttention):
    """Additive attention: score(q, k) = v·tanh(W_q q + W_k k).

    Shapes: W_q (Da,Dq), W_k (Da,Dk), v (Da). Cost: B·Q·K·Da multiply-adds and divisions; memory B·Q·K for large inputs
    on a CPU and in the Triton kernels, otherwise B·Q·K·Da.

    Reference: Bahdanau, Cho, Bengio 2015, appendix A.1.2 (W_a, U_a, v_a there; no biases).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        bias: Whether the sum inside the tanh has a bias. The bias belongs to the key projection, which is computed once.
        options: Further arguments of `ScoredAttention`: key_size, normalizer, scale, dropout, device and dtype.

    Example:
        >>> attention = Additive(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    supports_fused = True

    def __init__(
        self, query_size: int, *, attention_size: int | None = None, bias: bool = False, **options: Unpack[ScoreOptions]
    ) -> None:
        super().__init__(query_size, **options)
        size = query_size if attention_size is None else attention_size
        self.attention_size = check_size(type(self).__name__, "attention_size", size)
        self.score_weight = nn.Parameter(torch.empty(size, **factory(options)).uniform_(-(size**-0.5), size**-0.5))
        self.build_projections(check_flag(type(self).__name__, "bias", bias), **factory(options))

    def build_projections(self, bias: bool, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Build the maps of queries and keys."""
        self.query_projection = nn.Linear(self.query_size, self.attention_size, bias=False, device=device, dtype=dtype)
        self.key_projection = nn.Linear(self.key_size, self.attention_size, bias=bias, device=device, dtype=dtype)

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return W_q q."""
        return self.query_projection(query)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Da"]:
        return self.key_projection(key)

    def score_vector(self) -> Float[Tensor, " Da"]:
        """Return scale · v; if the scale is 1, return the parameter v itself."""
        return self.score_weight if self.scale == 1 else self.scale * self.score_weight

    def build_memory(self, key: Tensor, value: Tensor, key_mask: Tensor | None) -> Memory:
        """Return the projected keys, the values, and exponentials of the keys where they save time."""
        memory = super().build_memory(key, value, key_mask)
        # Where earlier weights change the keys at each query, exponentials of the keys are of no use.
        return AdditiveMemory(memory.key, memory.value, key_mask, None if self.stateful else ready_exponential(memory.key))

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        ready = memory.key_exponential if isinstance(memory, AdditiveMemory) else None
        return fastest_scores(self.project_query(query), memory.key, self.score_vector(), ready)

    def fused(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, masks: Masks, *, need_weights: bool
    ) -> tuple[Float[Tensor, "B Q Dv"], Float[Tensor, "B Q K"] | None] | None:
        """Return the result of the Triton kernels on a GPU, if the weights are a softmax and there is no bias."""
        if masks.bias is not None or not is_fused(query, memory.key, memory.value) or not self.is_softmax():
            return None
        projected, vector = self.project_query(query), self.score_vector()
        return fused_additive_attention(projected, memory.key, memory.value, vector, masks.mask, need_weights=need_weights)


class WeightNormAdditive(Additive):
    """Additive attention whose scores have a learned scale g: score(q, k) = g v/‖v‖ · tanh(W_q q + W_k k + b).

    Shapes: W_q (Da,Dq), W_k (Da,Dk), b and v (Da), g a scalar, initially 1/√Da.

    Reference: Raffel et al. 2017, appendix G; Chiu & Raffel 2018, eq. 13 (its offset r is a part of `SoftMonotonic` here,
    because a softmax would cancel it).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        options: Further arguments of `Additive`: key_size, attention_size, normalizer, scale, dropout, device and dtype.

    Example:
        >>> context, weights = WeightNormAdditive(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    supports_fused = True

    def __init__(self, query_size: int, **options: Unpack[AdditiveOptions]) -> None:
        super().__init__(query_size, bias=True, **options)
        self.gain = nn.Parameter(torch.tensor(self.attention_size**-0.5, **factory(options)))

    def score_vector(self) -> Float[Tensor, " Da"]:
        return scaled_direction(self.score_weight, self.gain if self.scale == 1 else self.scale * self.gain)
