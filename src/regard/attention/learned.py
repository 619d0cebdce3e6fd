"""Function that builds a number of a mechanism, such as b of `SoftmaxSink`; the number is either fixed or learned."""

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
    """Return a fixed number, or a parameter that training changes and that has this number as its initial value.

    Args:
        value: The number.
        learned: If True, return a parameter; if False, the number itself.
        num_heads: H, for a parameter (H,1,1) with one number for each head; None for a scalar parameter.
        device: Device of the parameter.
        dtype: Type of the parameter.
    """
    if not learned:
        return float(value)
    shape = () if num_heads is None else (num_heads, 1, 1)
    return nn.Parameter(torch.full(shape, float(value), device=device, dtype=dtype))
