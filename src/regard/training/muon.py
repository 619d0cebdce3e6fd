"""Muon: momentum whose matrices are made orthogonal."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

MOMENTUM = 0.95
ROUNDS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Of the iteration that takes small singular values fastest towards 1 (Jordan et al. 2024)."""


class Muon(torch.optim.Optimizer):
    """Steps of equal length in every direction that a matrix has.

        M ← μM + (1 − μ)G,    W ← (1 − ηλ)W − η·0.2·√max(m, n)·O,    O ≈ UVᵀ  of  μM + (1 − μ)G = UΣVᵀ

    for each matrix W (m,n) of gradient G, with learning rate η, momentum μ = 0.95 and weight decay λ. The factor 0.2·√max(m, n)
    makes the steps as long as those of Adam, so that one learning rate serves both.

    Matrices of one shape are computed together, twice as fast on a core as by `torch.optim.Muon`, and in float32 where the
    processor has no bfloat16 of its own: that class would need seconds for an update there.

    Reference: Jordan et al. 2024 (Muon: an optimizer for hidden layers in neural networks); Liu et al. 2025 (Muon is scalable
    for LLM training), eq. 4.
    """

    def __init__(
        self, matrices: Iterable[Tensor], *, lr: float, weight_decay: float = 0.0, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        """Begin with no momentum.

        Args:
            matrices: Of two axes each.
            lr: η.
            weight_decay: λ.
            dtype: What O is computed in; it need not be exact.
        """
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Make one update of every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    shapes.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in shapes.items():
                directions = orthogonal(torch.stack(self._look_ahead(matrices)).to(self._dtype)).to(matrices[0].dtype)
                if group["weight_decay"]:
                    torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, directions.unbind(), alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)

    def _look_ahead(self, matrices: list[Tensor]) -> list[Tensor]:
        """Return the momentum after this gradient, and once more towards it (Nesterov)."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        momenta = [self.state[matrix]["momentum"] for matrix in matrices]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        return list(torch._foreach_lerp(gradients, momenta, MOMENTUM))


def orthogonal(matrices: Float[Tensor, "N m n"]) -> Float[Tensor, "N m n"]:
    """Bring every singular value of each matrix near 1 (between 0.7 and 1.2, but for the smallest) by five rounds of

        X ← aX + (bA + cA²)X,    A = XXᵀ

    from X scaled to norm 1, which is on the side of the shorter axis. A matrix of zeros stays what it is.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
