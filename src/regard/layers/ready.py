"""Linear maps made ready for many steps of a search, where no gradient is wanted.

On a CPU in float32 the weight is laid out once as oneDNN's kernels read it. A product with a vocabulary of 9,700 takes three
quarters of the time that way with 500 rows, and half of it with 100: the plain map lays its weight out anew each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.cross_entropy import pad_vocabulary
from regard.layers.recurrent import compute_dtype
from regard.private_torch import can_pack, pack_weight, packed_linear

_ROWS = 4
"""Fewer sentences than that are through before laying out has paid."""
_ALIGNED = 32
"""Rows are filled up to a multiple: oneDNN compiles and keeps a kernel of half a megabyte for each number of them it meets."""


@dataclass(frozen=True)
class ReadyLinear:
    """x Wᵀ + b."""

    weight: Float[Tensor, "P D"]
    """In the dtype of the products; laid out where `packed`, else with rows of zeros behind its own."""
    bias: Float[Tensor, " P"] | None
    out_features: int
    packed: bool

    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        """Apply the map."""
        x = x.to(self.weight.dtype)
        if self.packed:
            rows = x.flatten(0, -2)
            count = len(rows)
            rows = functional.pad(rows, (0, 0, 0, -count % _ALIGNED))
            return packed_linear(rows, self.weight, self.bias)[:count].unflatten(0, x.shape[:-1])
        return functional.linear(x, self.weight, self.bias)[..., : self.out_features]


def ready_linear(linears: nn.Linear | Sequence[nn.Linear], rows: int) -> ReadyLinear | None:
    """A map made ready; None where there is a gradient to be followed, or a call of the map would do more than x Wᵀ + b.

    Args:
        linears: One map, or several of the same input, whose outputs come side by side.
        rows: How many sentences are searched for.
    """
    linears = linears if isinstance(linears, Sequence) else [linears]
    if torch.is_grad_enabled() or not all(map(is_plain, linears)):
        return None
    dtype = compute_dtype(linears[0].weight)
    weights: list[Tensor] = [linear.weight for linear in linears]
    biases: list[Tensor] = []
    if any(linear.bias is not None for linear in linears):
        biases = [
            weight.new_zeros(len(weight)) if linear.bias is None else linear.bias
            for linear, weight in zip(linears, weights, strict=True)
        ]
    weight = torch.cat(weights).to(dtype) if len(weights) > 1 else weights[0].to(dtype)
    bias = torch.cat(biases).to(dtype) if biases else None
    size = len(weight)
    if is_packing_fast(weight, rows):
        return ReadyLinear(pack_weight(weight), bias, size, packed=True)
    weight, bias = pad_vocabulary(weight, bias)
    return ReadyLinear(weight, bias, size, packed=False)


def is_plain(linear: nn.Module) -> bool:
    """Whether nobody has put something of their own in its place, or something before or behind it."""
    return type(linear) is nn.Linear and not (linear._forward_hooks or linear._forward_pre_hooks or "forward" in vars(linear))


def is_packing_fast(weight: Tensor, rows: int) -> bool:
    """Whether oneDNN is there, and the map large and used often enough."""
    if torch.compiler.is_compiling() or weight.device.type != "cpu" or weight.dtype != torch.float32 or rows < _ROWS:
        return False
    return can_pack()
