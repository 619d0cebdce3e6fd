"""Build numbers of a mechanism that are either fixed or learned."""

import torch
from torch import nn


def build_number(
    value: float,
    *,
    learned: bool,
    num_heads: int | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> float | nn.Parameter:
    """Return the number itself, or a parameter with this initial value.

    Args:
        value: The number.
        learned: Whether to return a parameter.
        num_heads: H, for a parameter (H,1,1) with a number for each head; None for a scalar.
        device: Device of the parameter.
        dtype: Type of the parameter.
    """
    if not learned:
        return float(value)
    shape = () if num_heads is None else (num_heads, 1, 1)
    return nn.Parameter(torch.full(shape, float(value), device=device, dtype=dtype))
