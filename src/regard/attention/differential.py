"""Differential attention: the difference of two softmaxes, which cancels the weight that both give to unrelated keys.

    weight_h = softmax(q_h k_hᵀ / √e) − λ softmax(q'_h k'_hᵀ / √e),    e = D/2H
    λ = exp(a·b) − exp(a'·b') + λ₀,    head_h = (1 − λ₀) norm(weight_h v_h),    context = W_o [head_1; …; head_H] + b_o

a, b, a' and b' are learned vectors, λ₀ is a constant, and norm is the RMS norm of each head. In code: `learned_factor`, which
returns λ, and `differential_weights`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_number
from regard.attention.masks import add_bias
from regard.attention.multihead import join_heads
from regard.attention.normalizers import masked_softmax
from regard.attention.projected import GatedMemory, ProjectedHeads, normed
from regard.attention.sparse import at_least_float32
from regard.errors import ConfigError


def learned_factor(vectors: Float[Tensor, "4 e"], initial: float) -> Float[Tensor, ""]:
    """Return λ = exp(a·b) − exp(a'·b') + λ₀ for the rows a, b, a', b' of `vectors` and λ₀ = `initial`."""
    first, first_other, second, second_other = at_least_float32(vectors)
    return (first @ first_other).exp() - (second @ second_other).exp() + initial


def differential_weights(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "B H K E"],
    factor: Float[Tensor, ""],
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "B H Q K"]:
    """Return softmax(q kᵀ / √e) − λ softmax(q' k'ᵀ / √e); q and q' (k and k') are the two halves of a head's features.

    λ is `factor`, and e = E/2 is the width of each half.
    """
    (q, k), width = (x.unflatten(-1, (2, -1)).transpose(2, 3) for x in (query, key)), query.shape[-1] // 2
    scores = q / width**0.5 @ k.mT  # (B,H,2,Q,K)
    scores = add_bias(scores, None if bias is None else bias[..., None, :, :], query.shape[1])
    first, second = masked_softmax(scores, None if mask is None else mask[..., None, :, :]).unbind(2)
    return first - factor.to(second.dtype) * second


class DifferentialAttention(ProjectedHeads):
    """weight_h = softmax(q_h k_hᵀ / √e) − λ softmax(q'_h k'_hᵀ / √e), head_h = (1 − λ₀) norm(weight_h v_h), in H heads.

    [q_h; q'_h], [k_h; k'_h] and v_h are D/H features of W_q query + b_q, W_k key + b_k and W_v value + b_v, e = D/2H. λ =
    exp(a·b) − exp(a'·b') + λ₀ with learned vectors a, b, a', b' of width e, which all heads share. norm is the RMS norm of
    each head, with gains that all heads share. Context (B,Q,D), weights (B,H,Q,K).

    **The reported weights are the difference: they may be negative, and rows sum to 1 − λ.** A `score_bias` is added to the
    scores of both softmaxes.

    Reference: Ye et al. 2024, "Differential Transformer", eqs. 1–3. As in the paper, use half as many heads as in a `MultiHead`
    of the same size, so that the queries of each softmax have the usual width.
    Differs from the paper: the maps have biases, unless `bias` is False; λ₀ is 0.8 in every layer by default, which the
    paper also tests; the paper's main setting is 0.8 − 0.6 exp(−0.3 (l − 1)) for layer l = 1, 2, …

    Args:
        size: D, width of queries and context, a multiple of `num_heads`.
        num_heads: H, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for D.
        value_size: Dv, width of the values, ≥ 1; None for Dk, because without a value the keys are the values.
        initial_lambda: λ₀, in (0, 1).
        bias: Whether the maps of queries, keys, values and output have biases.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1.
        causal: Whether a query may attend only to its own position and to earlier ones.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `num_heads` does not divide `size`, the width of a head is
            odd, λ₀ or dropout is out of its range, or `bias` or `causal` is not a bool.

    Example:
        >>> context, weights = DifferentialAttention(512, 4)(torch.randn(2, 9, 512))
        >>> context.shape, weights.shape
        (torch.Size([2, 9, 512]), torch.Size([2, 4, 9, 9]))
    """

    normalized: bool = False

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        initial_lambda: float = 0.8,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            size,
            num_heads,
            key_size=key_size,
            value_size=value_size,
            bias=bias,
            dropout=dropout,
            causal=causal,
            device=device,
            dtype=dtype,
        )
        if self.head_size % 2:
            raise ConfigError(
                f"DifferentialAttention(size={size}, num_heads={num_heads}): a head has {self.head_size} features; its two "
                "softmaxes take half of them each, so their number must be even"
            )
        check_number("DifferentialAttention", "initial_lambda", initial_lambda)
        if not 0 < initial_lambda < 1:
            raise ConfigError(f"DifferentialAttention(initial_lambda={initial_lambda}): expected a number between 0 and 1")
        self.initial_lambda = initial_lambda
        self.lambda_vectors = nn.Parameter(torch.empty(4, self.head_size // 2, device=device, dtype=dtype))
        nn.init.normal_(self.lambda_vectors, std=0.1)
        self.norm = nn.RMSNorm(self.head_size, eps=1e-5, device=device, dtype=dtype)

    def weights(
        self,
        query: Float[Tensor, "B H Q E"],
        memory: GatedMemory,
        mask: Bool[Tensor, "..."] | None,
        bias: Float[Tensor, "..."] | None,
    ) -> Float[Tensor, "B H Q K"]:
        """Return softmax(q kᵀ / √e) − λ softmax(q' k'ᵀ / √e)."""
        factor = learned_factor(self.lambda_vectors, self.initial_lambda)
        return differential_weights(query, memory.key, factor, mask, bias).to(memory.value.dtype)

    def output(self, heads: Float[Tensor, "B H Q Ev"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Return W_o (1 − λ₀) [norm(head_1); …; norm(head_H)] + b_o."""
        return self.output_projection((1 - self.initial_lambda) * join_heads(normed(heads, self.norm)))
