"""The gated delta rule by chunks: products of matrices and one triangular system within each chunk, and a loop over chunks.

For a chunk of C positions with queries Q, keys K, values V and rates β, the matrix S before the chunk, and c_t = log (α_1 …
α_t), where position 1 is the first position of the chunk:

    L_ti = β_t exp(c_t − c_i) k_t·k_i (i < t),    U = (I + L)⁻¹ diag(β) (V − diag(exp c) K S)
    found = diag(exp c) Q S + (exp(c_t − c_i) q_t·k_i)_{i ≤ t} U,    S ← exp(c_C) S + (diag(exp(c_C − c)) K)ᵀ U

Speed-up over the recurrence on a CPU in float32, forward and with gradients: 1.6 to 1.8 and 4.6 to 5.3 at B,H,T,E = 32,4,30,64;
1.75 to 1.95 and 7.3 to 7.7 at 4,8,512,64 (`benchmarks/log.md`).

Reference: Yang, Kautz, Hatamizadeh 2025, "Gated delta networks", section 3.3; Yang et al. 2024, "Parallelizing linear
transformers with the delta rule", section 3.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels.linear_chunks import in_chunks

CHUNK = 64
"""Number of positions in a chunk."""


def strictly_lower(faded: Float[Tensor, "*any T"]) -> Float[Tensor, "*any T T"]:
    """Return exp(c_t − c_i) for i < t, and zero elsewhere; c is `faded`."""
    ones = torch.ones(faded.shape[-1], faded.shape[-1], dtype=torch.bool, device=faded.device)
    return (faded[..., None] - faded[..., None, :]).where(ones.tril(-1), -math.inf).exp()


def solve_unit_lower(
    lower: Float[Tensor, "*#any T T"], right: Float[Tensor, "*#any X Y"], *, left: bool
) -> Float[Tensor, "*any X Y"]:
    """Return (I + L)⁻¹ R if `left`, else R (I + L)⁻¹, for a strictly lower triangular L."""
    return torch.linalg.solve_triangular(lower, right, upper=False, left=left, unitriangular=True)


def scan_chunks(
    query: Float[Tensor, "B H T E"] | None,
    key: Float[Tensor, "B H T E"],
    value: Float[Tensor, "B H T Ev"],
    gates: Float[Tensor, "B H T 2"],
    summary: Float[Tensor, "B H E Ev"],
) -> tuple[Float[Tensor, "B H T Ev"] | None, Float[Tensor, "B H E Ev"]]:
    """Return S_tᵀ q_t for each position, and the last S.

    Args:
        query: The queries; None if only the last S is needed; the first result is then None.
        key: The keys, of length one or zero.
        value: The values.
        gates: log α and β of each position; zero for keys that do not exist.
        summary: S before the first position.
    """
    length = key.shape[2]
    if length == 0:
        return (None if query is None else value), summary
    # A graph that is exported for any number of keys cannot loop over chunks, so all keys form one chunk.
    size = length if torch.compiler.is_exporting() else min(CHUNK, length)
    k, v, g = (x[:, :, None] if size is length else in_chunks(x, size) for x in (key, value, gates))
    faded, rate = g[..., 0].cumsum(-1), g[..., 1:]
    decay, kept = faded.exp()[..., None], (faded[..., -1:] - faded).exp()[..., None]
    within = strictly_lower(faded)
    system = rate * within * (k @ k.mT)
    # Solve for both right-hand sides at once: diag(β) V, and diag(β exp c) K, whose solution is multiplied by S in the loop.
    both = solve_unit_lower(system, rate * torch.cat([v, decay * k], -1), left=True)
    new, old = both.split([v.shape[-1], k.shape[-1]], -1)
    if query is not None:
        q = query[:, :, None] if size is length else in_chunks(query, size)
        own = (q @ k.mT) * (within + torch.eye(size, dtype=k.dtype, device=k.device))
        q = decay * q
    k = kept * k
    found = []
    for n in range(k.shape[2]):
        written = new[:, :, n] - old[:, :, n] @ summary
        if query is not None:
            found.append(q[:, :, n] @ summary + own[:, :, n] @ written)
        summary = decay[:, :, n, -1:] * summary + k[:, :, n].mT @ written
    return (torch.cat(found, 2)[:, :, :length] if found else None), summary
