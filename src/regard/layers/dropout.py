"""Dropout that is cheap on a CPU.

On a CPU, PyTorch draws one Bernoulli number at a time, in about 10 ns, and a Transformer needs a few dozen such numbers for
each feature of a word. Here, one 64-bit random number serves four elements.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.private_torch import is_transformed

_LEVELS = 1 << 16


class Dropout(nn.Module):
    """y = x·b/(1 − p), where b is 1 with probability 1 − p, else 0, for each element; in evaluation mode y = x.

    Reference: Srivastava et al. 2014.
    Differs from the paper: it scales in training and not in evaluation. On a CPU, without `torch.compile` and the transforms of
    `torch.func`, p is rounded to a multiple of 1/65,536, and the scale uses the rounded p.

    Args:
        p: Probability that an element becomes zero, 0 ≤ p < 1.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ConfigError(f"Dropout(p={p}): p must be at least 0 and below 1")
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """Drop elements while training."""
        if not self.training or not self.p:
            return x
        plain = x.device.type != "cpu" or torch.compiler.is_compiling() or is_transformed()
        return nn.functional.dropout(x, self.p) if plain else x * _multiplier(x, self.p)


def _multiplier(x: Tensor, p: float) -> Tensor:
    """Return random factors b/(1 − p) in the shape of x, where b is 1 with probability 1 − p, else 0."""
    count = x.numel()
    kept = min(max(round((1 - p) * _LEVELS), 1), _LEVELS - 1)
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    levels = bits.view(torch.int16)[:count].view(x.shape).to(torch.float32)
    # The integers are exact in float32, so clamping gives exactly 0 or 1. A comparison would take four times as long.
    chosen = levels.neg_().add_(kept - _LEVELS // 2).clamp_(0, 1)
    return chosen.to(x.dtype).mul_(_LEVELS / kept)
