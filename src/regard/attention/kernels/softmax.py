"""Softmax over few keys: with fewer than a vector holds, PyTorch's takes ten times as long for each weight on a CPU.

Measured with AVX-512, float32, nanoseconds a weight, forward and backward: 17 and 7 with 15 keys, 1.3 and 0.3 with 16.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

LANES = 16
"""Numbers of a vector."""


def softmax(scores: Float[Tensor, "*batch K"], dtype: torch.dtype | None = None) -> Float[Tensor, "*batch K"]:
    """exp(s_k) / Σ_j exp(s_j) over the last axis, among keys of −∞ up to a vector's length where they are fewer.

    Args:
        scores: Any real numbers, in any floating type.
        dtype: What is computed and returned; None for that of the scores.
    """
    missing = LANES - scores.shape[-1]
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if scores.device.type != "cpu" or traced or not 0 < missing < LANES:
        return scores.softmax(-1, dtype=dtype)
    return functional.pad(scores, (0, missing), value=-torch.inf).softmax(-1, dtype=dtype)[..., : scores.shape[-1]]
