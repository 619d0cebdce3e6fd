"""Sparse normalizers, whose weights are exactly zero for low scores. The module `normalizers` lists the other normalizers.

    w_k = max(s_k − τ, 0)           `Sparsemax`         with τ such that the weights sum to one
    w_k = max(s_k/2 − τ, 0)²        `Entmax15`

In code: `sparsemax_threshold` and `entmax15_threshold` compute τ from the scores in descending order, z_1 ≥ z_2 ≥ …
"""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


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


class Sparsemax(nn.Module):
    """w = argmin_p ‖p − s‖² over all p ≥ 0 that sum to one: w_k = max(s_k − τ, 0), with τ such that the weights sum to one.

    Scores that are at least 1 below the highest get exactly zero. Cost: sorting each row.

    Reference: Martins, Astudillo 2016, eqs. 2–3 and algorithm 1.

    Example:
        >>> Sparsemax()(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero if the mask is False for the whole row)."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        if not scores.shape[-1]:
            return scores
        z = below_the_highest(scores, mask).clamp(min=-2)
        with torch.no_grad():
            support = _above(z, sparsemax_threshold(z))
        # Compute τ again from the support (the keys above τ), for the gradient: τ = (Σ_{support} z − 1) / |support|.
        threshold = (z.where(support, 0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
        return _finished((z - threshold).where(support, 0).clamp(min=0), scores, mask)


class Entmax15(nn.Module):
    """1.5-entmax: w_k = max(s_k/2 − τ, 0)², with τ such that the weights sum to one; between softmax and `Sparsemax`.

    Scores that are at least 2 below the highest get exactly zero. Cost: sorting each row.

    Reference: Peters, Niculae, Martins 2019, algorithm 2 (exact, by sorting).

    Example:
        >>> Entmax15()(torch.tensor([1.0, 1.0, -3.0]))
        tensor([0.5000, 0.5000, 0.0000])
    """

    normalized: ClassVar[bool] = True
    """Each row of weights sums to one (to zero if the mask is False for the whole row)."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        if not scores.shape[-1]:
            return scores
        z = (below_the_highest(scores, mask) / 2).clamp(min=-2)
        with torch.no_grad():
            support = _above(z, entmax15_threshold(z))
        # Compute τ again from the support (the keys above τ), for the gradient: Σ_{support} (z − τ)² = 1.
        count = support.sum(-1, keepdim=True)
        mean = z.where(support, 0).sum(-1, keepdim=True) / count
        spread = (z - mean).where(support, 0).square().sum(-1, keepdim=True)
        threshold = mean - ((1 - spread) / count).clamp(min=torch.finfo(z.dtype).tiny).sqrt()
        return _finished((z - threshold).where(support, 0).clamp(min=0).square(), scores, mask)


def at_least_float32(scores: Tensor) -> Tensor:
    """Return a float64 tensor unchanged, and any other tensor converted to float32."""
    return scores if scores.dtype == torch.float64 else scores.float()


def below_the_highest(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return s − max s, at most 0, and −∞ for masked scores.

    The normalizers multiply the result by α − 1 (1 for `Sparsemax`, ½ for `Entmax15`) and then set numbers below −2 to −2. This
    changes no weight, because only numbers above −1 can get a weight, and it keeps sums exact for all scores.
    """
    z = at_least_float32(scores)
    if mask is None:
        return z - z.detach().amax(-1, keepdim=True)
    z = z.where(mask, -torch.inf)
    return z - z.detach().amax(-1, keepdim=True).where(mask.any(-1, keepdim=True), 0)


def _ordered(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row in descending order, and the ranks 1, 2, …, K."""
    return z.sort(-1, descending=True).values, torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)


def _above(z: Tensor, threshold: Tensor) -> Tensor:
    """Return a mask of the support: True where z is above the threshold.

    In a row with a NaN, the threshold is NaN. The whole row is then in the support, so that all its weights are NaN, as for a
    softmax.
    """
    return ~(z <= threshold)


def _finished(weights: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    return (weights if mask is None else weights.where(mask, 0)).to(scores.dtype)
