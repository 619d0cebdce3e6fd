"""Absolute positions, which are added to the embeddings. Relative positions are in `regard.attention.heads.positions`."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_size
from regard.errors import ConfigError
from regard.machine import exact_dtype


class SinusoidalPositions(nn.Module):
    """x_t + p_t with p_t,2i = sin(t / 10000^(2i/D)) and p_t,2i+1 = cos(t / 10000^(2i/D)).

    t is the position, and the features 2i and 2i + 1 form a pair. The module has no parameters and no maximum length.

    Reference: Vaswani et al. 2017, section 3.5.

    Args:
        size: D, width of the embeddings, even.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        check_size("SinusoidalPositions", "size", size)
        if size % 2:
            raise ConfigError(f"SinusoidalPositions(size={size}): sines and cosines come in pairs, so size must be even")
        self.size = size

    def forward(self, x: Float[Tensor, "B T D"], start: int = 0) -> Float[Tensor, "B T D"]:
        """Add the vectors of the positions `start`, `start` + 1, … to x."""
        return x + sinusoids(x.shape[1], self.size, start=start, device=x.device).to(x.dtype)


def sinusoids(length: int, size: int, *, start: int = 0, device: torch.device | None = None) -> Float[Tensor, "T D"]:
    """Return the vectors p_t of `SinusoidalPositions` from t = `start` on, in `exact_dtype`; they are rounded when used."""
    dtype = exact_dtype(torch.device(device or "cpu"))
    position = torch.arange(start, start + length, device=device, dtype=dtype)
    rate = 10_000.0 ** (-torch.arange(0, size, 2, device=device, dtype=dtype) / size)
    angle = position[:, None] * rate
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)


class LearnedPositions(nn.Module):
    """x_t + p_t, with a learned vector p_t for each position t below `max_length`. Later positions use the last vector.

    Reference: Gehring et al. 2017, section 3.1.

    Args:
        size: D, width of the embeddings, ≥ 1.
        max_length: Number of positions with a vector, ≥ 1.
    """

    def __init__(self, size: int, *, max_length: int) -> None:
        super().__init__()
        check_size("LearnedPositions", "size", size)
        check_size("LearnedPositions", "max_length", max_length)
        self.size, self.max_length = size, max_length
        self.weight = nn.Parameter(torch.empty(max_length, size))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Float[Tensor, "B T D"], start: int = 0) -> Float[Tensor, "B T D"]:
        """Add the vectors of the positions `start`, `start` + 1, … to x."""
        position = torch.arange(start, start + x.shape[1], device=x.device).clamp(max=self.max_length - 1)
        return x + self.weight[position]


class NoPositions(nn.Module):
    """x unchanged, for attention with relative positions."""

    def forward(self, x: Float[Tensor, "B T D"], start: int = 0) -> Float[Tensor, "B T D"]:
        """Return x unchanged."""
        return x


def build_positions(kind: Literal["sinusoidal", "learned", "rotary"], size: int) -> nn.Module:
    """Return the module that adds positions to embeddings.

    For `learned`, there are vectors for 512 positions; by default, a search takes at most 500 steps, unless required words or a
    minimum length need more. For `rotary`, the module adds nothing, because the attention itself rotates queries and keys.
    """
    match kind:
        case "sinusoidal":
            return SinusoidalPositions(size)
        case "learned":
            return LearnedPositions(size, max_length=512)
        case "rotary":
            return NoPositions()  # rotary positions are part of the attention
