"""Additive attention: a network with one hidden layer scores each pair of query and key.

    score(q, k) = v · tanh(W_q q + W_k k)          weights = softmax_k score(q, k),    context = Σ_k weight_k value_k

In code: `plain_additive_scores`, which takes projected queries W_q q and projected keys W_k k. The layer is `Additive`. Its
variants have other W_q and W_k (`concat`) or another v (`monotonic.WeightNormAdditive`). Many models use such a score to
compare each row of one set with each row of another: in translation, pointer networks (Vinyals et al. 2015), speech recognition
(Chorowski et al. 2015) and, with a LeakyReLU in place of the tanh, graph attention (Brody et al. 2022).
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_size
from regard.attention.base import AttentionOutput, Memory
from regard.attention.kernels.additive import fast_additive_scores, is_fast, ready_exponential
from regard.attention.kernels.additive_triton import fused_additive_attention, is_fused
from regard.attention.masks import combine_masks, zero_masked
from regard.attention.normalizers import masked_softmax
from regard.attention.scored import ScoredAttention
from regard.shapes import check_shape


def plain_additive_scores(
    query: Float[Tensor, "B Q H"], key: Float[Tensor, "B K H"], score_weight: Float[Tensor, " H"]
) -> Float[Tensor, "B Q K"]:
    """Return s_ij = Σ_h v_h tanh(q_ih + k_jh) for projected queries q and keys k, computed directly.

    v is `score_weight`. All B·Q·K·H elements of the sum are in memory at the same time.
    """
    hidden = (query[:, :, None] + key[:, None]).tanh()
    return hidden @ score_weight.to(hidden.dtype)


def additive_scores(
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    score_weight: Float[Tensor, " H"],
    key_exponential: Float[Tensor, "B K H"] | None = None,
) -> Float[Tensor, "B Q K"]:
    """Return s_ij = Σ_h v_h tanh(q_ih + k_jh), on a CPU without a large (B,Q,K,H) tensor.

    On a CPU, `kernels.additive` computes large inputs in blocks. In all other cases, also on a GPU, `plain_additive_scores`
    computes the scores, with a (B,Q,K,H) tensor.

    Args:
        query: Projected queries W_q q.
        key: Projected keys W_k k.
        score_weight: v.
        key_exponential: `kernels.additive.exponential(key)`; pass it if many calls use the same keys. None to compute it here.

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
    """Return `additive_scores` for tensors whose sizes are known to match."""
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
        value: The values; the context is their weighted mean.
        score_weight: v.
        key_mask: Boolean (B,K); True where there is a key.
        attn_mask: Boolean (Q,K) or (B,Q,K); True where a query may attend to a key.
        need_weights: Whether to return the weights (B,Q,K).

    Returns:
        Context (B,Q,Dv), and weights (None if `need_weights` is False).

    Raises:
        ShapeError: If the sizes of an axis do not match, or a mask is not boolean.

    Example:
        In a pointer network, each decoder state chooses among the encoder's states:
        `additive_attention(to_query(decoder), to_key(encoder), encoder, v, key_mask=mask).weights`.
    """
    sizes = check_shape("value", value, "B K Dv", check_shape("key", key, "B K H"))
    check_shape("score_weight", score_weight, "H", check_shape("query", query, "B Q H", sizes))
    if is_fused(query, key, value):
        return _fused(query, key, value, score_weight, key_mask, attn_mask, need_weights)
    mask = combine_masks(key_mask, attn_mask, batch=key.shape[0], queries=query.shape[1], keys=key.shape[1])
    weights = masked_softmax(fastest_scores(query, zero_masked(key, key_mask), score_weight), mask)
    context = weights.to(value.dtype) @ zero_masked(value, key_mask)
    return AttentionOutput(context, weights if need_weights else None)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_weight: Tensor,
    key_mask: Tensor | None,
    attn_mask: Tensor | None,
    need_weights: bool,
) -> AttentionOutput:
    """Run the Triton kernels. The two masks stay separate, because a combined mask would have B·Q·K elements."""
    for pair in ((key_mask, None), (None, attn_mask)):  # these calls only check each mask; their results are not used
        combine_masks(*pair, batch=key.shape[0], queries=query.shape[1], keys=key.shape[1])
    key, value = zero_masked(key, key_mask), zero_masked(value, key_mask)
    context, weights = fused_additive_attention(
        query, key, value, score_weight, key_mask=key_mask, attn_mask=attn_mask, need_weights=need_weights
    )
    return AttentionOutput(context, weights)


@dataclass(frozen=True)
class AdditiveMemory(Memory):
    """Projected keys, the values, and exponentials of the keys for decoders that attend with one query at a time."""

    key_exponential: Tensor | None = None
    """e^{2·key} (B,K,Da), without gradient; None if it would not save time."""

    def select(self, index: Int[Tensor, " M"]) -> "AdditiveMemory":
        """Keep the given rows of the batch, in the given order."""
        mask = None if self.key_mask is None else self.key_mask[index]
        ready = None if self.key_exponential is None else self.key_exponential[index]
        return AdditiveMemory(self.key[index], self.value[index], mask, ready)


torch.export.register_dataclass(AdditiveMemory, serialized_type_name="regard.attention.AdditiveMemory")


class AdditiveBase(ScoredAttention):
    """Base class of the additive mechanisms: score = scale · v·tanh(a(q) + b(k)).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax.
        scale: Factor of the scores, > 0; None for 1.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, the widths differ and the score needs equal ones, the
            normalizer is unknown, or scale or dropout is out of its range.
    """

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        attention_size: int | None = None,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(query_size, key_size=key_size, normalizer=normalizer, scale=scale, dropout=dropout)
        self.attention_size = size = query_size if attention_size is None else attention_size
        check_size(type(self).__name__, "attention_size", size)
        self.score_weight = nn.Parameter(torch.empty(size, device=device, dtype=dtype).uniform_(-(size**-0.5), size**-0.5))
        self.build_parameters(device, dtype)

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Build the parameters of the projections; a class with further arguments builds them in its constructor."""

    @abstractmethod
    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return a(q)."""

    def score_vector(self) -> Float[Tensor, " Da"]:
        """Return scale · v; if the scale is 1, return the parameter v itself."""
        return self.score_weight if self.scale == 1 else self.scale * self.score_weight

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Memory:
        """Project the keys once, and compute their exponentials if that saves time."""
        memory = super().prepare(key, value, key_mask=key_mask)
        return AdditiveMemory(memory.key, memory.value, key_mask, ready_exponential(memory.key))

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """Return scale · v·tanh(a(q) + b(k))."""
        ready = memory.key_exponential if isinstance(memory, AdditiveMemory) else None
        return fastest_scores(self.project_query(query), memory.key, self.score_vector(), ready)

    def fused(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        attn_mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        *,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Return the result of the Triton kernels on a GPU, if the weights are a softmax and there is no bias."""
        if not is_fused(query, memory.key, memory.value) or not self.is_softmax() or score_bias is not None:
            return None
        masks = memory.key_mask, attn_mask
        return _fused(self.project_query(query), memory.key, memory.value, self.score_vector(), *masks, need_weights)


class Additive(AdditiveBase):
    """Additive attention: score(q, k) = v·tanh(W_q q + W_k k).

    Shapes: W_q (Da,Dq), W_k (Da,Dk), v (Da). Cost: B·Q·K·Da multiply-adds and divisions; memory B·Q·K for large inputs
    on a CPU and in the Triton kernels, otherwise B·Q·K·Da.

    Reference: Bahdanau, Cho, Bengio 2015, appendix A.1.2 (W_a, U_a, v_a there; no biases).

    Args:
        bias: Whether the sum inside the tanh has a bias. The bias belongs to the key projection, which is computed once.

    The other arguments are those of `AdditiveBase`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, the normalizer is unknown, scale or dropout is out of its
            range, or `bias` is not a bool.

    Example:
        >>> attention = Additive(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    supports_fused = True

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        attention_size: int | None = None,
        bias: bool = False,
        normalizer: nn.Module | str | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size,
            key_size=key_size,
            attention_size=attention_size,
            normalizer=normalizer,
            scale=scale,
            dropout=dropout,
            device=device,
            dtype=dtype,
        )
        check_flag(type(self).__name__, "bias", bias)
        self.query_projection = nn.Linear(query_size, self.attention_size, bias=False, device=device, dtype=dtype)
        self.key_projection = nn.Linear(self.key_size, self.attention_size, bias=bias, device=device, dtype=dtype)

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q Da"]:
        """Return W_q q."""
        return self.query_projection(query)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Da"]:
        """Return W_k k (+ bias)."""
        return self.key_projection(key)
