"""Softmax over few keys: with fewer than a vector holds, PyTorch's takes ten times as long for each weight on a CPU.

Gain in float32, forward and with gradients: 4.2 to 5.2 and 2.8 for 32·30 rows of 10 keys, 1.6 to 1.9 and 1.1 for 128 rows
of 10, 6 to 8 and 5 for 4,096 rows of 12 (`benchmarks/log.md`). In bfloat16 the padding loses with gradients (0.6 to 0.9),
so half types are not padded.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

LANES = 16
"""Numbers of a vector."""


def softmax(scores: Float[Tensor, "*batch K"], dtype: torch.dtype | None = None) -> Float[Tensor, "*batch K"]:
    """Return exp(s_k) / Σ_j exp(s_j) over the last axis, among keys of −∞ up to a vector's length where they are fewer.

    Args:
        scores: Any real numbers, in any floating type.
        dtype: What is computed and returned; None for that of the scores.
    """
    missing = LANES - scores.shape[-1]
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    half = (dtype or scores.dtype).itemsize < 4
    if scores.device.type != "cpu" or traced or half or not 0 < missing < LANES:
        return scores.softmax(-1, dtype=dtype)
    return functional.pad(scores, (0, missing), value=-torch.inf).softmax(-1, dtype=dtype)[..., : scores.shape[-1]]
