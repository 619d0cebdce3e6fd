"""Linear maps whose weights are converted once for all steps of a search.

oneDNN's kernels need weights in a special layout, to which a plain linear map converts its weight at every call. With a
vocabulary of 9,700 words, converting the weight beforehand reduces the time of a product in float32 to three quarters for 500
rows, and to one half for 100 rows.

Within the context `int8_products`, weights and inputs are rounded to 8-bit integers, which processors with VNNI instructions
multiply fastest.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.capabilities import is_plain
from regard.layers.cross_entropy import pad_vocabulary
from regard.layers.recurrent import compute_dtype
from regard.private_torch import can_pack, int8_product, pack_weight, packed_linear

_SENTENCES = 4
"""Below this number of sentences, converting the weight costs more than it saves."""
_ALIGNED = 32
"""Rows are padded to a multiple of this number, because oneDNN compiles and keeps a kernel of half a megabyte for each
number of rows.
"""
_BLOCK_ROWS = 128
"""Number of rows of a product of integers that are converted to float32 at once, while they are in the cache."""
_INT8: ContextVar[bool] = ContextVar("int8", default=False)


@contextmanager
def int8_products() -> Iterator[None]:
    """Pack weights that are on a CPU as 8-bit integers while this context is open; on other devices, nothing changes."""
    token = _INT8.set(True)
    try:
        yield
    finally:
        _INT8.reset(token)


@dataclass(frozen=True)
class PackedLinear:
    """x Wᵀ + b, in the dtype of the weight."""

    weight: Float[Tensor, "P D"]
    """The weight in the dtype of the products: in oneDNN's layout if `packed`, otherwise padded with rows of zeros."""
    bias: Float[Tensor, " P"] | None
    out_features: int
    packed: bool

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of inputs and results."""
        return self.weight.dtype

    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        """Apply the map."""
        # A step has many small maps: a conversion or a slice that changes nothing costs as much as a small product.
        if x.dtype != self.weight.dtype:
            x = x.to(self.weight.dtype)
        if not self.packed:
            found = functional.linear(x, self.weight, self.bias)
            return found if self.out_features == len(self.weight) else found[..., : self.out_features]
        rows = x.flatten(0, -2)
        count = len(rows)
        if count % _ALIGNED == 0:
            return packed_linear(rows, self.weight, self.bias).unflatten(0, x.shape[:-1])
        rows = functional.pad(rows, (0, 0, 0, -count % _ALIGNED))
        return packed_linear(rows, self.weight, self.bias)[:count].unflatten(0, x.shape[:-1])


@dataclass(frozen=True)
class QuantizedLinear:
    """x Wᵀ + b in float32, with the product in 8-bit integers.

    Each row of W and of x is scaled so that its highest absolute value becomes 127, and rounded. The scale of a row of x
    depends on that row only.
    """

    weight: Int8[Tensor, "D V"]
    """The rounded weight, transposed."""
    scale: Float[Tensor, " V"]
    """Factor of each column of the product: the highest absolute value of the row of W, divided by 127²."""
    bias: Float[Tensor, " V"]
    """b, or zeros."""
    dtype: ClassVar[torch.dtype] = torch.float32
    """The dtype of inputs and results."""

    @classmethod
    def of(cls, weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None) -> "QuantizedLinear":
        """Build the map from a weight, which is rounded, and a bias."""
        rounded, highest = _rounded(weight.float())
        zeros = weight.new_zeros(len(weight), dtype=torch.float32)
        return cls(rounded.t().contiguous(), highest[:, 0] / 127**2, zeros if bias is None else bias.float())

    @property
    def out_features(self) -> int:
        """The number of outputs, V."""
        return len(self.scale)

    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        """Apply the map."""
        rounded, highest = _rounded(x.flatten(0, -2).float())
        found = self.scale.new_empty(len(rounded), self.out_features)
        for start in range(0, len(rounded), _BLOCK_ROWS):
            block = found[start : start + _BLOCK_ROWS]
            block.copy_(int8_product(rounded[start : start + _BLOCK_ROWS], self.weight)).mul_(self.scale)
            torch.addcmul(self.bias, block, highest[start : start + _BLOCK_ROWS], out=block)
        return found.unflatten(0, x.shape[:-1])


PackedMap = PackedLinear | QuantizedLinear
"""A map that is packed for a search."""


def _rounded(rows: Float[Tensor, "R D"]) -> tuple[Int8[Tensor, "R D"], Float[Tensor, "R 1"]]:
    """Scale each row so that its highest absolute value becomes 127, and round it; return the highest values too."""
    highest = rows.abs().amax(1, keepdim=True).clamp_(min=1e-30)  # no division by zero for a row of zeros
    return (rows * (127 / highest)).round_().to(torch.int8), highest


def pack_linear(linears: nn.Linear | Sequence[nn.Linear], rows: int) -> PackedMap | None:
    """Pack a map, or several maps of the same input, whose outputs are then concatenated.

    Within `int8_products`, the products run in 8-bit integers on a CPU; otherwise in autocast's dtype, or in the dtype of the
    weight without autocast.

    Args:
        linears: The map or the maps.
        rows: Number of sentences in the search.

    Returns:
        The packed map. None if gradients are enabled, or if calling one of the maps computes more than x Wᵀ + b (an adapter,
        a hook, a subclass).
    """
    linears = linears if isinstance(linears, Sequence) else [linears]
    if torch.is_grad_enabled() or not all(map(is_plain, linears)):
        return None
    dtype = compute_dtype(linears[0].weight)
    weight = join([linear.weight for linear in linears]).to(dtype)
    bias = None
    if any(linear.bias is not None for linear in linears):
        biases = [x.weight.new_zeros(len(x.weight)) if x.bias is None else x.bias for x in linears]
        bias = join(biases).to(dtype)
    return pack_matrix(weight, bias, rows)


def pack_matrix(weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None, rows: int) -> PackedMap:
    """Pack x Wᵀ + b, in the dtype of W, or within `int8_products` on a CPU in 8-bit integers.

    Args:
        weight: W.
        bias: b.
        rows: Number of sentences in the search.
    """
    if _INT8.get() and weight.device.type == "cpu":
        return QuantizedLinear.of(weight, bias)
    size = len(weight)
    if is_packing_fast(weight, rows):
        return PackedLinear(pack_weight(weight.contiguous()), bias, size, packed=True)
    weight, bias = pad_vocabulary(weight, bias)
    return PackedLinear(weight, bias, size, packed=False)


def join(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate the tensors; a single one is not copied."""
    return torch.cat(list(tensors)) if len(tensors) > 1 else tensors[0]


def is_packing_fast(weight: Tensor, rows: int) -> bool:
    """Return whether oneDNN can pack the weight, and enough sentences will use it."""
    if torch.compiler.is_compiling() or weight.device.type != "cpu" or rows < _SENTENCES:
        return False
    return can_pack(weight.dtype)
