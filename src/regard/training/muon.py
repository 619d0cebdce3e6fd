"""The Muon optimizer, which makes the momentum matrices orthogonal."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

MOMENTUM = 0.95
ROUNDS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Coefficients of the iteration that moves small singular values fastest towards 1 (Jordan et al. 2024)."""


class Muon(torch.optim.AdamW):
    """The Muon optimizer, whose steps have equal length in all directions of a matrix; other parameters are updated by AdamW:

        M ← μM + (1 − μ)G,    W ← (1 − ηλ)W − η·0.2·√max(m, n)·O,    O ≈ UVᵀ  of  μM + (1 − μ)G = UΣVᵀ

    for each matrix W (m,n) with gradient G, momentum matrix M, learning rate η, momentum μ = 0.95 and weight decay λ. UΣVᵀ is
    the singular value decomposition. The factor 0.2·√max(m, n) makes the steps as long as those of Adam, so that the weights
    that AdamW updates can have the same learning rate.

    Matrices of the same two sizes are computed together, twice as fast on one core as with `torch.optim.Muon`. In runs without
    bfloat16, O is computed in float32. On processors without bfloat16, `torch.optim.Muon` would need seconds per update.

    Reference: Jordan et al. 2024 (Muon: an optimizer for hidden layers in neural networks); Liu et al. 2025 (Muon is scalable
    for LLM training), eq. 4.
    """

    found_inf: Tensor | None = None
    """A tensor that is 1 if the update must be skipped, else 0; None if no update is ever skipped."""

    def __init__(
        self,
        matrices: Iterable[Tensor],
        others: Iterable[dict[str, Any]] = (),
        *,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        """Initialise with zero momentum.

        Args:
            matrices: Parameters with two axes each.
            others: Groups of other parameters, which AdamW updates.
            lr: Learning rate η.
            weight_decay: Weight decay λ of the matrices.
            betas: Decay rates of AdamW.
            dtype: Type for the computation of O, which need not be exact.
        """
        groups = [{"params": list(matrices), "weight_decay": weight_decay, "muon": True}, *others]
        super().__init__(groups, lr=lr, betas=betas, fused=True)
        self._dtype = dtype

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Make one update of every parameter that has a gradient."""
        whole = self.param_groups
        for group in whole:
            if "muon" in group:
                self._step_matrices(group)
        self.param_groups = [group for group in whole if "muon" not in group]
        try:
            super().step()
        finally:
            self.param_groups = whole

    @torch.no_grad()
    def _step_matrices(self, group: dict[str, Any]) -> None:
        matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
        kept = 1 - group["lr"] * group["weight_decay"]
        skipped = going = None
        if self.found_inf is not None:  # the CPU does not read this tensor, because it would have to wait for the GPU
            skipped, going = self.found_inf > 0, 1 - self.found_inf
            kept = kept**going  # exactly 1 in an update that is skipped
        if group["weight_decay"] and matrices:
            torch._foreach_mul_(matrices, kept)
        # A matrix and the transposed one of another have the same iteration, so that both are computed in one product.
        sizes: dict[tuple[int, ...], list[Tensor]] = {}
        for matrix in matrices:
            sizes.setdefault(tuple(sorted(matrix.shape)), []).append(matrix)
        for (_, longest), alike in sizes.items():
            alike.sort(key=_is_tall)
            directions = orthogonal(self._look_ahead(alike, skipped).to(self._dtype)).to(alike[0].dtype)
            if going is not None:
                directions = directions * going
            num_wide = len(alike) - sum(map(_is_tall, alike))
            found = [*directions[:num_wide].unbind(), *directions[num_wide:].mT.contiguous().unbind()]
            torch._foreach_add_(alike, found, alpha=-group["lr"] * 0.2 * longest**0.5)

    def _look_ahead(self, matrices: list[Tensor], skipped: Tensor | None) -> Float[Tensor, "N m n"]:
        """Update the momentum with the gradient, and return the Nesterov momentum, transposed if a matrix is tall."""
        for matrix in matrices:
            if not self.state[matrix]:
                # AdamW expects a number of steps in each state.
                self.state[matrix] = {"step": torch.zeros(()), "momentum": torch.zeros_like(matrix)}
        momenta = [_wide(self.state[matrix]["momentum"]) for matrix in matrices]
        # Stacked, so that a GPU starts one operation for all matrices.
        gradient = torch.stack([_wide(matrix.grad) for matrix in matrices if matrix.grad is not None])
        momentum = torch.stack(momenta)
        if skipped is not None:  # if an update is skipped, the momentum replaces the gradient, and so stays unchanged
            gradient = torch.where(skipped, momentum, gradient)
        momentum.lerp_(gradient, 1 - MOMENTUM)
        torch._foreach_copy_(momenta, momentum.unbind())
        return torch.lerp(gradient, momentum, MOMENTUM)


def _is_tall(matrix: Tensor) -> bool:
    return matrix.shape[-2] > matrix.shape[-1]


def _wide(matrix: Tensor) -> Tensor:
    return matrix.mT if _is_tall(matrix) else matrix


def orthogonal(matrices: Float[Tensor, "N m n"]) -> Float[Tensor, "N m n"]:
    """Move every singular value of each matrix close to 1 (from 0.7 to 1.2, except the smallest) with five iterations of

        X ← aX + (bA + cA²)X,    A = XXᵀ

    where a, b and c are `COEFFICIENTS`. At the beginning, X is the matrix, scaled to norm 1, and transposed if that makes A
    smaller. A matrix of zeros stays unchanged.
    """
    a, b, c = COEFFICIENTS
    x = _wide(matrices)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if _is_tall(matrices) else x
