"""Sparse normalizers, whose weights are exactly zero for low scores; τ is such that the weights of a row sum to one.

    w_k = max(s_k − τ, 0)                          `Sparsemax`, "sparsemax"       in code: `sparsemax_threshold`
    w_k = max(s_k/2 − τ, 0)²                       `Entmax15`, "entmax15"                  `entmax15_threshold`
    w_k = max((α − 1) s_k − τ, 0)^(1/(α−1))        `Entmax`, "entmax"                      `entmax_threshold`, `newton_step`

`Entmax` is a family between softmax (α → 1) and sparsemax (α = 2), with α given or learned. The first two sort the scores.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.arguments import check_flag, check_number, check_size
from regard.attention.learned import build_number
from regard.attention.normalizers.base import Normalizer

# Smallest α. Below it, the exponent 1/(α − 1) is so large that float32 loses precision. Use a softmax instead of a smaller α;
# the weights are nearly the same.
SMALLEST = 1.01


def sparsemax_threshold(z: Float[Tensor, "*any K"]) -> Float[Tensor, "*any 1"]:
    """Return τ = (z_1 + … + z_n − 1) / n for the largest n with 1 + n z_n > z_1 + … + z_n, where z_1 ≥ z_2 ≥ … are sorted."""
    ordered, rank = _ordered(z)
    total = ordered.cumsum(-1)
    size = (1 + rank * ordered > total).sum(-1, keepdim=True).clamp(min=1)
    return (total.gather(-1, size - 1) - 1) / size


def entmax15_threshold(z: Float[Tensor, "*any K"]) -> Float[Tensor, "*any 1"]:
    """Return τ with Σ_k max(z_k − τ, 0)² = 1, for z = s/2.

    τ = mean − √((1 − Σ (z − mean)²) / n), where mean and sum cover the n highest z, for the largest possible n.
    """
    ordered, rank = _ordered(z)
    mean = ordered.cumsum(-1) / rank
    spread = (ordered.square().cumsum(-1) / rank - mean.square()) * rank
    thresholds = mean - ((1 - spread) / rank).clamp(min=0).sqrt()
    size = (thresholds <= ordered).sum(-1, keepdim=True).clamp(min=1)
    return thresholds.gather(-1, size - 1)


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


class Sparsemax(Normalizer):
    """w = argmin_p ‖p − s‖² over all p ≥ 0 that sum to one: w_k = max(s_k − τ, 0), with τ such that the weights sum to one.

    Scores that are at least 1 below the highest get exactly zero. Cost: sorting each row.

    Reference: Martins, Astudillo 2016, eqs. 2–3 and algorithm 1.

    Example:
        >>> Sparsemax()(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """

    name = "sparsemax"

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        z = _below_the_highest(scores).clamp(min=-2)
        with torch.no_grad():
            support = _above(z, sparsemax_threshold(z))
        # Compute τ again from the support (the keys above τ), for the gradient: τ = (Σ_{support} z − 1) / |support|.
        threshold = (z.where(support, 0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
        return (z - threshold).where(support, 0).clamp(min=0)


class Entmax15(Normalizer):
    """1.5-entmax: w_k = max(s_k/2 − τ, 0)², with τ such that the weights sum to one; between softmax and `Sparsemax`.

    Scores that are at least 2 below the highest get exactly zero. Cost: sorting each row.

    Reference: Peters, Niculae, Martins 2019, algorithm 2 (exact, by sorting).

    Example:
        >>> Entmax15()(torch.tensor([1.0, 1.0, -3.0]))
        tensor([0.5000, 0.5000, 0.0000])
    """

    name = "entmax15"

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        z = (_below_the_highest(scores) / 2).clamp(min=-2)
        with torch.no_grad():
            support = _above(z, entmax15_threshold(z))
        # Compute τ again from the support (the keys above τ), for the gradient: Σ_{support} (z − τ)² = 1.
        count = support.sum(-1, keepdim=True)
        mean = z.where(support, 0).sum(-1, keepdim=True) / count
        spread = (z - mean).where(support, 0).square().sum(-1, keepdim=True)
        threshold = mean - ((1 - spread) / count).clamp(min=torch.finfo(z.dtype).tiny).sqrt()
        return (z - threshold).where(support, 0).clamp(min=0).square()


class Entmax(Normalizer):
    """α-entmax: w_k = max((α − 1) s_k − τ, 0)^(1/(α−1)), with the τ that makes the weights sum to one.

    The larger α, the more weights are exactly zero: a softmax for α → 1, `Entmax15` for 1.5, `Sparsemax` for 2.

    Cost: about 20 passes over each row, 35 in float64 (the exact `Entmax15` and `Sparsemax` sort each row once).

    Reference: Peters, Niculae, Martins 2019, eq. 10 and algorithm 1 (bisection); Correia, Niculae, Martins 2019, section 3
    (α = 1 + σ(a), learned for each head).

    Args:
        num_heads: H, for scores (B,H,Q,K) and a learned α for each head; None for one α.
        alpha: Initial value of α, 1.01 ≤ α ≤ 2; if α is learned, 1.01 < α < 2.
        learned: Whether α is trained; a trained α stays between 1.01 and 2.
        device: Device of α, as in `torch.nn`.
        dtype: Type of α, as in `torch.nn`.

    Example:
        >>> Entmax(alpha=2.0)(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """

    name = "entmax"

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
        self.num_heads = None if num_heads is None else check_size("Entmax", "num_heads", num_heads)
        self.learned = check_flag("Entmax", "learned", learned)
        if learned:
            share = (check_number("Entmax", "alpha", alpha, above=SMALLEST, below=2) - SMALLEST) / (2 - SMALLEST)
            alpha = math.log(share / (1 - share))
        check = {} if learned else {"least": SMALLEST, "most": 2.0}
        start = check_number("Entmax", "alpha", alpha, **check)
        self.raw_alpha = build_number(start, learned=learned, num_heads=num_heads, device=device, dtype=dtype)

    @property
    def alpha(self) -> Float[Tensor, "..."] | float:
        """α: a float if it is fixed; if it is learned, a scalar tensor, or a tensor (H,1,1) with one α for each head."""
        if isinstance(self.raw_alpha, float):
            return self.raw_alpha
        return SMALLEST + (2 - SMALLEST) * self.raw_alpha.sigmoid()

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        scale = self.alpha - 1
        if isinstance(scale, Tensor):
            scale = scale.to(scores.dtype)
        # The gradient of a learned scale is finite only if no difference from the highest score is −∞. Differences below −1000
        # are set to −1000, which changes no weight: the scale is at least 0.01, and only numbers above −1 can get a weight.
        z, power = (scale * _below_the_highest(scores).clamp(min=-1000)).clamp(min=-2), 1 / scale
        with torch.no_grad():
            threshold = entmax_threshold(z, power)
        # Two steps of Newton's method refine τ and make it differentiable with respect to scores and α. Each step doubles the
        # number of exact digits, and the order up to which derivatives are exact.
        for _ in range(2):
            threshold = newton_step(z, power, threshold)
        return entmax_weights(z, power, threshold)


def _below_the_highest(scores: Tensor) -> Tensor:
    """Return s − max s."""
    # The normalizers multiply the result by α − 1 (1 for `Sparsemax`, ½ for `Entmax15`) and then set numbers below −2 to −2.
    # This changes no weight, because only numbers above −1 can get a weight, and it keeps sums exact for all scores.
    return scores - scores.detach().amax(-1, keepdim=True)


def _ordered(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row in descending order, and the ranks 1, 2, …, K."""
    return z.sort(-1, descending=True).values, torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)


def _above(z: Tensor, threshold: Tensor) -> Tensor:
    """Return a mask of the support: True where z is above the threshold."""
    # In a row with a NaN, the threshold is NaN. The whole row is then in the support, so that all its weights are NaN.
    return ~(z <= threshold)
