"""Forgetting attention: a softmax in which the forget gates of later keys lower the score of each key.

    weight_ij = softmax_j(q_i·k_j / √E + Σ_{l > j} log f_l),    f_l = σ(w_f·key_l + b_f)

In code: `forgetting_bias`.
"""

from typing import Unpack

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_number
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.attention.heads.options import HeadOptions
from regard.attention.learned import build_linear, softplus
from regard.attention.masks import Masks
from regard.attention.precision import at_least_float32


def forgetting_bias(gates: Float[Tensor, "B H K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "B H #Q K"]:
    """Return Σ_{l > j} log f_l over the keys l that a query may attend to; `gates` holds log f."""
    seen = gates[:, :, None] if mask is None else gates[:, :, None].where(mask, 0)
    # From the last key backwards: with differences of sums from the first key, those of a few late keys would lose digits.
    return seen.flip(-1).cumsum(-1).flip(-1) - seen


class ForgettingAttention(MultiHead):
    """weight_ij = softmax_j(q_i·k_j / √(D/H) + Σ_{l > j} log f_l) in H heads; context = W_o [head_1; …; head_H] + b_o.

    q, k and v are those of `MultiHead`. The forget gate f_l = σ(w_f·key_l + b_f) in (0, 1) is a number for each head and key.
    The sum is over the keys l after j that the query may attend to: if `causal`, those up to the query's position, so that old
    keys lose weight. The weights depend on the order of the keys, so that no positions are needed. Context (B,Q,D), weights
    (B,H,Q,K).

    Reference: Lin et al. 2025, "Forgetting Transformer: softmax attention with a forget gate", section 3.
    Differs from the paper: the paper has the causal form only; b_f starts at 5, so that all gates are almost open at first; the
    maps have biases, unless `bias` is False.

    Args:
        initial_gate: Initial b_f; with a larger number, the gates forget less at first.

    The other arguments are those of `MultiHead`.

    Example:
        >>> context, weights = ForgettingAttention(512, 8, causal=True)(torch.randn(2, 9, 512))
    """

    permutation_equivariant = False
    changes_weights = True

    def __init__(self, size: int, num_heads: int, *, initial_gate: float = 5.0, **options: Unpack[HeadOptions]) -> None:
        super().__init__(size, num_heads, **options)
        self.initial_gate = check_number("ForgettingAttention", "initial_gate", initial_gate)
        self.gate_projection = build_linear(self.key_size, num_heads, device=options.get("device"), dtype=options.get("dtype"))
        nn.init.constant_(self.gate_projection.bias, initial_gate)

    def build_gates(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B H K 1"]:
        """Return log f."""
        gates = at_least_float32(self.gate_projection(key))
        return -softplus(-gates).transpose(1, 2)[..., None]

    def change_scores(
        self, scores: Float[Tensor, "B H Q K"], *, query: Float[Tensor, "B H Q E"], memory: HeadMemory, masks: Masks
    ) -> Float[Tensor, "B H Q K"]:
        """Return q_i·k_j / √(D/H) + Σ_{l > j} log f_l."""
        assert memory.gates is not None
        return scores + forgetting_bias(memory.gates[..., 0], masks.allowed)
