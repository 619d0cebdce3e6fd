"""Stick-breaking weights: from the last key to the first, each key gets a share of the weight that is left.

    w_k = β_k Π_{j > k} (1 − β_j),    β = 1 / (1 + exp(−s))        `StickBreaking`, "stick_breaking"

In code: `stick_breaking_weights`. Later keys take their share first, so that no positions are needed.
"""

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.sparse import at_least_float32


def stick_breaking_weights(scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
    """Return β_k Π_{j > k} (1 − β_j), computed in logarithms: log β_k = log σ(s_k), and log(1 − β_j) = −softplus(s_j)."""
    left = -nn.functional.softplus(scores)
    if mask is not None:
        left = left.where(mask, 0)  # a masked key takes no weight
    # The logarithm of the share that the keys after k leave: sums from the end, without key k itself.
    after = nn.functional.pad(left, (0, 1))[..., 1:].flip(-1).cumsum(-1).flip(-1)
    return (nn.functional.logsigmoid(scores) + after).exp()


class StickBreaking(nn.Module):
    """w_k = β_k Π_{j > k} (1 − β_j) with β = σ(s): from the last key to the first, each takes the share β of the rest.

    **The weights of a row sum to less than one, and depend on the order of the keys.** This normalizer is made for causal
    attention: with `MultiHead(…, causal=True)`, the last allowed key is the one at the query's own position.

    Reference: Tan et al. 2025, "Scaling stick-breaking attention", eqs. 1 to 3. Differs from the paper: a query may attend to
    its own position where the mask allows it.

    Example:
        >>> StickBreaking()(torch.zeros(3))
        tensor([0.1250, 0.2500, 0.5000])
    """

    normalized: ClassVar[bool] = False
    """The sum of the weights of a row is between zero and one."""
    permutation_equivariant: ClassVar[bool] = False
    """False, because later keys take their share first."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        rows = at_least_float32(scores)
        if mask is None:
            return stick_breaking_weights(rows).to(scores.dtype)
        return stick_breaking_weights(rows.where(mask, 0), mask).where(mask, 0).to(scores.dtype)
