"""Forgetting attention: a softmax in which the forget gates of later keys lower the score of each key.

    weight_ij = softmax_j(q_i·k_j / √E + Σ_{l > j} log f_l),    f_l = σ(w_f·key_l + b_f)

The sum is over the keys l > j that query i may attend to. In code: `forgetting_bias` and `forgetting_weights`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_finite
from regard.attention.masks import add_bias
from regard.attention.multihead import head_scores
from regard.attention.normalizers import masked_softmax
from regard.attention.projected import GatedMemory, ProjectedHeads, build_linear, softplus
from regard.attention.sparse import at_least_float32


def forgetting_bias(gates: Float[Tensor, "B H K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "B H #Q K"]:
    """Return Σ_{l > j} log f_l over the keys l that a query may attend to; `gates` holds log f."""
    seen = gates[:, :, None] if mask is None else gates[:, :, None].where(mask, 0)
    return seen.flip(-1).cumsum(-1).flip(-1) - seen  # from the last key backwards, so that sums of a few keys stay accurate


def forgetting_weights(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "B H K E"],
    gates: Float[Tensor, "B H K"],
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "B H Q K"]:
    """Return softmax_j(q_i·k_j / √E + Σ_{l > j} log f_l); `gates` holds log f."""
    scores = head_scores(query, key) + forgetting_bias(gates, mask)
    return masked_softmax(add_bias(scores, bias, query.shape[1]), mask)


class ForgettingAttention(ProjectedHeads):
    """weight_ij = softmax_j(q_i·k_j / √(D/H) + Σ_{l > j} log f_l) in H heads; context = W_o [head_1; …; head_H] + b_o.

    q, k and v are D/H features of W_q query + b_q, W_k key + b_k and W_v value + b_v. The forget gate f_l = σ(w_f·key_l + b_f)
    in (0, 1) is a number for each head and key. The sum is over the keys l after j that the query may attend to: if `causal` is
    True, those up to the query's position, so that old keys lose weight; otherwise all keys after j. The weights depend on the
    order of the keys, so that no positions are needed. Context (B,Q,D), weights (B,H,Q,K).

    Reference: Lin et al. 2025, "Forgetting Transformer: softmax attention with a forget gate", section 3.
    Differs from the paper: the paper has the causal form only; b_f starts at 5, so that all gates are almost open at first; the
    maps have biases, unless `bias` is False.

    Args:
        size: D, width of queries and context, a multiple of `num_heads`.
        num_heads: H, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for D.
        value_size: Dv, width of the values, ≥ 1; None for Dk, because without a value the keys are the values.
        initial_gate: Initial b_f; with a larger number, the gates forget less at first.
        bias: Whether the maps of queries, keys, values and output have biases.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1.
        causal: Whether a query may attend only to its own position and to earlier ones.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `num_heads` does not divide `size`, `initial_gate` is not
            finite, `dropout` is out of its range, or `bias` or `causal` is not a bool.

    Example:
        >>> attention = ForgettingAttention(512, 8, causal=True)
        >>> context, weights = attention(torch.randn(2, 9, 512))
        >>> context.shape, weights.shape
        (torch.Size([2, 9, 512]), torch.Size([2, 8, 9, 9]))
    """

    permutation_equivariant: bool = False

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        initial_gate: float = 5.0,
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
        check_finite("ForgettingAttention", "initial_gate", initial_gate)
        self.gate_projection = build_linear(self.key_size, num_heads, device=device, dtype=dtype)
        nn.init.constant_(self.gate_projection.bias, initial_gate)

    def build_gates(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B H K 1"]:
        """Return log f."""
        gates = at_least_float32(self.gate_projection(key))
        return -softplus(-gates).transpose(1, 2)[..., None]

    def weights(
        self,
        query: Float[Tensor, "B H Q E"],
        memory: GatedMemory,
        mask: Bool[Tensor, "..."] | None,
        bias: Float[Tensor, "..."] | None,
    ) -> Float[Tensor, "B H Q K"]:
        """Return softmax_j(q_i·k_j / √(D/H) + Σ_{l > j} log f_l)."""
        assert memory.gates is not None
        return forgetting_weights(query, memory.key, memory.gates[..., 0], mask, bias).to(memory.value.dtype)
