"""Learned parts of mechanisms: numbers, such as b of `SoftmaxSink`, and linear maps; and functions that follow them."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.precision import at_least_float32


def build_number(
    value: float,
    *,
    learned: bool,
    num_heads: int | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> float | nn.Parameter:
    """Return the number itself, or, if it is learned, a scalar parameter, or one (H,1,1) with a number for each head."""
    if not learned:
        return float(value)
    shape = () if num_heads is None else (num_heads, 1, 1)
    return nn.Parameter(torch.full(shape, float(value), device=device, dtype=dtype))


def factory(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device and the dtype among the options of a constructor, for parameters and modules of `torch.nn`."""
    return {"device": options.get("device"), "dtype": options.get("dtype")}


def build_linear(inputs: int, outputs: int, **options: Any) -> nn.Linear:
    """Return a linear map with the initial weights of `start_linear`."""
    linear = nn.Linear(inputs, outputs, **options)
    start_linear(linear)
    return linear


def start_linear(*linears: nn.Linear) -> None:
    """Give linear maps Xavier's uniform initial weights and, if they have biases, biases of zeros."""
    for linear in linears:
        nn.init.xavier_uniform_(linear.weight)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


def normed(features: Float[Tensor, "... E"], norm: nn.RMSNorm) -> Float[Tensor, "... E"]:
    """Return features divided by their root mean square, times the weights of `norm`; half types are computed in float32."""
    wide = at_least_float32(features)
    return nn.functional.rms_norm(wide, norm.normalized_shape, norm.weight.to(wide.dtype), norm.eps).to(features.dtype)


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x))."""
    # The gradient of PyTorch's softplus fails in graphs compiled ahead of time (PyTorch 2.13).
    return torch.logaddexp(x, torch.zeros_like(x))
