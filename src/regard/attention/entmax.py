"""α-entmax: a family between softmax (α → 1) and sparsemax (α = 2), with α given or learned.

    w_k = max((α − 1) s_k − τ, 0)^(1/(α−1)),    with the τ for which Σ_k w_k = 1        `Entmax`, "entmax"

In code: `entmax_weights`. The exact forms for α = 1.5 and 2, by sorting, are in `sparse`.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_number, check_size
from regard.attention.learned import build_number
from regard.attention.sparse import below_the_highest
from regard.errors import ConfigError

SMALLEST = 1.01
"""Smallest α. Below it, the exponent 1/(α − 1) is so large that float32 loses precision. Use a softmax
instead of a smaller α; the weights are nearly the same.
"""


def entmax_weights(z: Float[Tensor, "*any K"], power: Tensor | float, threshold: Tensor) -> Float[Tensor, "*any K"]:
    """Return max(z − τ, 0)^power with τ = `threshold`: the weights for z = (α − 1) s and power = 1/(α − 1)."""
    support = z > threshold
    return (z - threshold).where(support, 1).pow(power).where(support, 0)


def entmax_threshold(z: Float[Tensor, "*any K"], power: Tensor | float) -> Float[Tensor, "*any one"]:
    """Return an approximation of τ, by bisection of the interval [−1, 0], which contains τ if the largest z is 0."""
    low = torch.full_like(z[..., :1], -1.0)
    width = 1.0
    for _ in range(16 if z.dtype == torch.float32 else 30):
        width /= 2
        total = (z - (low + width)).clamp(min=0).pow(power).sum(-1, keepdim=True)
        low = torch.where(total >= 1, low + width, low)
    return low


def newton_step(z: Float[Tensor, "*any K"], power: Tensor | float, threshold: Tensor) -> Float[Tensor, "*any one"]:
    """Return τ after a step of Newton's method: the root of the tangent of Σ_k w_k − 1 as a function of τ."""
    slope = power * entmax_weights(z, power - 1, threshold).sum(-1, keepdim=True)
    return threshold + (entmax_weights(z, power, threshold).sum(-1, keepdim=True) - 1) / slope


class Entmax(nn.Module):
    """α-entmax: w_k = max((α − 1) s_k − τ, 0)^(1/(α−1)), with the τ that makes the weights sum to one.

    The larger α, the more weights are exactly zero: a softmax for α → 1, `Entmax15` for 1.5, `Sparsemax` for 2. With
    `num_heads` and a learned α, each head learns how sparse its weights are.

    Cost: about 20 passes over each row, 35 in float64 (the exact `Entmax15` and `Sparsemax` sort each row once).

    Reference: Peters, Niculae, Martins 2019, eq. 10 and algorithm 1 (bisection); Correia, Niculae, Martins 2019, section 3
    (α = 1 + σ(a), learned for each head).

    Args:
        num_heads: H, for scores (B,H,Q,K) and a learned α for each head; None for one α.
        alpha: Initial value of α, 1.01 ≤ α ≤ 2; if α is learned, 1.01 < α < 2.
        learned: Whether α is trained; a trained α stays between 1.01 and 2.
        device: Device of α, as in `torch.nn`.
        dtype: Type of α, as in `torch.nn`.

    Raises:
        ConfigError: If an argument has a wrong type or is out of range.

    Example:
        >>> Entmax(alpha=2.0)(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero if the mask is False for the whole row)."""

    def __init__(
        self,
        num_heads: int | None = None,
        *,
        alpha: float = 1.5,
        learned: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_heads is not None:
            check_size("Entmax", "num_heads", num_heads)
        check_flag("Entmax", "learned", learned)
        check_number("Entmax", "alpha", alpha)
        if not SMALLEST <= alpha <= 2 or (learned and not SMALLEST < alpha < 2):
            between = f"a number above {SMALLEST} and below 2" if learned else f"{SMALLEST} ≤ alpha ≤ 2"
            raise ConfigError(f"Entmax(alpha={alpha}): expected {between}; for a smaller alpha, use a softmax")
        self.num_heads, self.learned = num_heads, learned
        share = (alpha - SMALLEST) / (2 - SMALLEST)
        start = math.log(share / (1 - share)) if learned else alpha
        self.raw_alpha = build_number(start, learned=learned, num_heads=num_heads, device=device, dtype=dtype)

    @property
    def alpha(self) -> Float[Tensor, "..."] | float:
        """α: a float if it is fixed; if it is learned, a scalar tensor, or a tensor (H,1,1) with one α for each head."""
        if isinstance(self.raw_alpha, float):
            return self.raw_alpha
        return SMALLEST + (2 - SMALLEST) * self.raw_alpha.sigmoid()

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        if not scores.shape[-1]:
            return scores
        scale = self.alpha - 1
        if isinstance(scale, Tensor):
            scale = scale.to(torch.promote_types(scores.dtype, torch.float32))
        # The gradient of a learned scale is finite only if no difference from the highest score is −∞. Differences below −1000
        # are set to −1000, which changes no weight: the scale is at least 0.01, and only numbers above −1 can get a weight.
        z, power = (scale * below_the_highest(scores, mask).clamp(min=-1000)).clamp(min=-2), 1 / scale
        if mask is not None:  # in a row without allowed keys, the search for τ and its gradients need a score of 0
            z = z.where(mask.any(-1, keepdim=True), 0)
        with torch.no_grad():
            threshold = entmax_threshold(z, power)
        # Two steps of Newton's method refine τ and make it differentiable with respect to scores and α. Each step doubles the
        # number of exact digits, and the order up to which derivatives are exact.
        for _ in range(2):
            threshold = newton_step(z, power, threshold)
        weights = entmax_weights(z, power, threshold)
        return (weights if mask is None else weights.where(mask, 0)).to(scores.dtype)

    def extra_repr(self) -> str:
        """Return `num_heads` (or α if `num_heads` is None) and whether α is learned, for `print`."""
        shown = [f"num_heads={self.num_heads}"] if self.num_heads else [f"alpha={float(self.alpha):.4g}"]
        return ", ".join([*shown, f"learned={self.learned}"])
