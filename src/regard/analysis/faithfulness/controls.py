"""Controls for attention: permuted weights, and measures that compare orders of words and distributions of attention."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.analysis.faithfulness.probe import Probe
from regard.errors import ShapeError
from regard.models.text_classifier import Reweight


def build_permutation(seed: int) -> Reweight:
    """Return a `Reweight` that permutes the pooling weights of each text among its tokens, in the same way in all heads."""
    generator = torch.Generator().manual_seed(seed)

    def permute(weights: Tensor, mask: Tensor) -> Tensor:
        noise = torch.rand(mask.shape, generator=generator).to(weights.device)
        # Padding comes last in both orders, so that no weight moves between tokens and padding.
        drawn = noise.masked_fill(~mask, 2.0).argsort(-1).expand(weights.shape)
        places = (~mask).to(torch.int8).argsort(stable=True, dim=-1).expand(weights.shape)
        return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, drawn)) * mask

    return permute


def permuted_distance(
    probe: Probe, texts: Sequence[np.ndarray], *, permutations: int = 100, seed: int = 1
) -> Float[np.ndarray, " N"]:
    """Compute the median change of a prediction when its attention weights are permuted.

    Args:
        probe: The model.
        texts: Token ids of each text.
        permutations: Number of permutations of each text.
        seed: Seed of the permutations.

    Returns:
        For each text, the median total variation distance, from 0 to 1.

    Reference:
        Jain and Wallace 2019, Attention is not Explanation, algorithm 2.
    """
    unchanged = probe.probabilities(texts)
    moved = probe.reweighted(texts, build_permutation(seed), times=permutations)
    return np.median(probe.distance(moved, unchanged[:, None]), axis=1)


def kendall_tau(first: Float[np.ndarray, " W"], second: Float[np.ndarray, " W"]) -> float:
    """Return Kendall's τ_b, the similarity of the orders of two lists of values.

        τ_b = (concordant − discordant) / √((pairs − ties in the first) (pairs − ties in the second))

    Returns:
        A number from −1 to 1; NaN if all values of one list are equal.

    Raises:
        ShapeError: If the lengths of the lists differ.

    Reference:
        Kendall 1945, The Treatment of Ties in Ranking Problems.
    """
    if first.shape != second.shape:
        raise ShapeError(
            f"kendall_tau: the first has {first.shape} values, the second {second.shape}, expected the same number"
        )
    one, two = (np.sign(values[:, None] - values[None, :]) for values in (first, second))
    untied = float((one**2).sum()) * float((two**2).sum())
    return float((one * two).sum() / untied**0.5) if untied else float("nan")


def divergence(first: Float[np.ndarray, " W"], second: Float[np.ndarray, " W"]) -> float:
    """Return the Jensen–Shannon divergence of two distributions of attention: ½ KL(p ‖ m) + ½ KL(q ‖ m), m = ½ (p + q).

    Args:
        first: Weights ≥ 0; they are normalised to a sum of one.
        second: Weights of the other distribution.

    Returns:
        A number from 0 to log 2; NaN if the weights of one distribution are all zero.

    Raises:
        ShapeError: If the lengths of the distributions differ.
    """
    if first.shape != second.shape:
        raise ShapeError(
            f"divergence: the first has {first.shape} weights, the second {second.shape}, expected the same number"
        )
    if not first.sum() or not second.sum():
        return float("nan")
    p, q = first / first.sum(), second / second.sum()
    return float((_relative_entropy(p, (p + q) / 2) + _relative_entropy(q, (p + q) / 2)) / 2)


def _relative_entropy(p: np.ndarray, m: np.ndarray) -> float:
    there = p > 0
    return float((p[there] * np.log(p[there] / m[there])).sum())
