"""Differential attention: the difference of two softmaxes, which cancels the weight that both give to unrelated keys.

    weight_h = softmax(q_h k_hᵀ / √e) − λ softmax(q'_h k'_hᵀ / √e),    e = D/2H
    λ = exp(a·b) − exp(a'·b') + λ₀,    head_h = (1 − λ₀) norm(weight_h v_h),    context = W_o [head_1; …; head_H] + b_o

In code: `learned_factor`, which returns λ, and `differential_weights`.
"""

from typing import Any, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_number
from regard.attention.heads.attend import join_heads
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.attention.heads.options import HeadOptions
from regard.attention.learned import normed
from regard.attention.masks import Masks
from regard.attention.precision import at_least_float32
from regard.errors import ConfigError


def learned_factor(vectors: Float[Tensor, "4 e"], initial: float) -> Float[Tensor, ""]:
    """Return λ = exp(a·b) − exp(a'·b') + λ₀ for the rows a, b, a', b' of `vectors` and λ₀ = `initial`."""
    first, first_other, second, second_other = at_least_float32(vectors)
    return (first @ first_other).exp() - (second @ second_other).exp() + initial


def differential_weights(weights: Float[Tensor, "B HH Q K"], factor: Float[Tensor, ""]) -> Float[Tensor, "B H Q K"]:
    """Return w_h − λ w'_h for softmaxes w_1, …, w_H, w'_1, …, w'_H; λ is `factor`."""
    first, second = weights.chunk(2, 1)
    return first - factor.to(second.dtype) * second


class DifferentialAttention(MultiHead):
    """weight_h = softmax(q_h k_hᵀ / √e) − λ softmax(q'_h k'_hᵀ / √e), head_h = (1 − λ₀) norm(weight_h v_h), in H heads.

    [q_h; q'_h], [k_h; k'_h] and v_h are the queries, keys and values of `MultiHead`, e = D/2H. λ = exp(a·b) − exp(a'·b') + λ₀
    with learned vectors a, b, a', b' of width e. norm is the RMS norm of each head. All heads share λ and the gains of norm.
    Context (B,Q,D), weights (B,H,Q,K).

    **The reported weights are the difference: they may be negative, and rows sum to 1 − λ.** A `score_bias` is added to the
    scores of both softmaxes.

    Reference: Ye et al. 2024, "Differential Transformer", eqs. 1–3. As in the paper, use half as many heads as in a `MultiHead`
    of the same size, so that the queries of each softmax have the usual width.
    Differs from the paper: the maps have biases, unless `bias` is False; λ₀ is the same in all layers, which the paper also
    tests; its main setting is 0.8 − 0.6 exp(−0.3 (l − 1)) for layer l = 1, 2, …

    Args:
        initial_lambda: λ₀, in (0, 1).

    The other arguments are those of `MultiHead`.

    Example:
        >>> context, weights = DifferentialAttention(512, 4)(torch.randn(2, 9, 512))
    """

    normalized = False
    changes_weights = True

    def __init__(self, size: int, num_heads: int, *, initial_lambda: float = 0.8, **options: Unpack[HeadOptions]) -> None:
        super().__init__(size, num_heads, **options)
        if self.head_size % 2:
            raise ConfigError(
                f"DifferentialAttention(size={size}, num_heads={num_heads}): a head has {self.head_size} features; its two "
                "softmaxes take half of them each, so their number must be even"
            )
        self.initial_lambda = check_number("DifferentialAttention", "initial_lambda", initial_lambda, above=0, below=1)
        device, dtype = options.get("device"), options.get("dtype")
        self.lambda_vectors = nn.Parameter(torch.empty(4, self.head_size // 2, device=device, dtype=dtype))
        nn.init.normal_(self.lambda_vectors, std=0.1)
        self.norm = nn.RMSNorm(self.head_size, eps=1e-5, device=device, dtype=dtype)

    @property
    def rotated_size(self) -> int:
        """The width of the queries and keys of one softmax, e."""
        return self.head_size // 2

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B HH Q e"]:
        """Return q_1, …, q_H, q'_1, …, q'_H, so that neighbouring heads still share keys if `num_kv_heads` is less than H."""
        return _halves(super().project_query(query))

    def project(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"]
    ) -> tuple[Float[Tensor, "B GG K e"], Float[Tensor, "B G K E"]]:
        """Return k_1, …, k_G, k'_1, …, k'_G, and the values."""
        keys, values = super().project(key, value)
        return _halves(keys), values

    def mix(
        self, heads: Tensor, memory: HeadMemory, masks: Masks, **options: Any
    ) -> tuple[Float[Tensor, "B Hv Q E"], Float[Tensor, "B Hv Q K"] | None]:
        """Return the context of each head, and the weights; a mask or bias of H heads is for both softmaxes of each head."""
        mask, bias = (x if x is None or x.ndim < 4 or x.shape[1] == 1 else x.repeat(1, 2, 1, 1) for x in masks[:2])
        return super().mix(heads, memory, masks._replace(mask=mask, bias=bias), **options)

    def change_weights(self, weights: Float[Tensor, "B HH Q K"], **options: Any) -> Float[Tensor, "B H Q K"]:
        """Return softmax(q kᵀ / √e) − λ softmax(q' k'ᵀ / √e), after `reweight`."""
        factor = learned_factor(self.lambda_vectors, self.initial_lambda)
        return super().change_weights(differential_weights(weights, factor), **options)

    def output(self, heads: Float[Tensor, "B H Q Ev"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Return W_o (1 − λ₀) [norm(head_1); …; norm(head_H)] + b_o."""
        return self.output_projection((1 - self.initial_lambda) * join_heads(normed(heads, self.norm)))


def _halves(heads: Float[Tensor, "B H T E"]) -> Float[Tensor, "B HH T e"]:
    """Return the first halves of the features of all heads, then the second halves, as heads of their own."""
    return torch.cat(heads.chunk(2, -1), 1)
