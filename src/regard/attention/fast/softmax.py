"""Softmax over few keys. On a CPU, PyTorch's softmax takes ten times as long per weight if a row is shorter than a SIMD vector.

Speed-up in float32, forward and with gradients: 4.2 to 5.2 and 2.8 for 32·30 rows of 10 keys, 1.6 to 1.9 and 1.1 for 128 rows
of 10, 6 to 8 and 5 for 4,096 rows of 12 (`benchmarks/log.md`). In bfloat16, padding is slower with gradients (a speed-up of 0.6
to 0.9), so half types are not padded.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

# Number of float32 values in a SIMD vector of 512 bits.
LANES = 16
# Number of scores below which padding costs more than it saves.
SMALL = 1 << 10


def softmax(scores: Float[Tensor, "*batch K"], dtype: torch.dtype | None = None) -> Float[Tensor, "*batch K"]:
    """Return exp(s_k) / Σ_j exp(s_j) over the last axis.

    On a CPU, in float32 and float64, short rows are padded with −∞ to the length of a SIMD vector, unless PyTorch traces or
    compiles the call.

    Args:
        scores: Any real numbers, in any floating type.
        dtype: Type of the computation and of the result; None for the type of the scores.
    """
    # The sizes come after the compiler's question, because a compiled graph must not depend on them.
    plain = not scores.is_cpu or torch.compiler.is_compiling() or (dtype or scores.dtype).itemsize < 4
    missing = 0 if plain else LANES - scores.shape[-1]
    if not 0 < missing < LANES or scores.numel() < SMALL or torch.jit.is_tracing():
        return scores.softmax(-1, dtype=dtype)
    return functional.pad(scores, (0, missing), value=-torch.inf).softmax(-1, dtype=dtype)[..., : scores.shape[-1]]
