"""Linear maps whose weights are converted once for all steps of a search.

oneDNN's kernels need weights in a special layout, to which a plain linear map converts its weight at every call. With a
vocabulary of 9,700 words, converting the weight beforehand reduces the time of a product in float32 to three quarters for 500
rows, and to one half for 100 rows.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.capabilities import is_plain
from regard.attention.precision import compute_dtype
from regard.layers.cross_entropy import pad_vocabulary
from regard.private_torch import can_pack, int8_product, pack_weight, packed_linear

# Below this number of sentences, converting the weight costs more than it saves.
_SENTENCES = 4
# Rows are padded to a multiple of this number, because oneDNN compiles and keeps a kernel of half a megabyte for each number of
# rows.
_ALIGNED = 32
# Number of rows of a product of integers that are converted to float32 at once, while they are in the cache.
_BLOCK_ROWS = 128


class PackedLinear(nn.Module):
    """x Wᵀ + b, with the product in the dtype of the packed weight; on a CPU, the result is in float32 at least.

    Args:
        weight: W, in the dtype of the products.
        bias: b, in the same dtype.
        packed: Whether to convert the weight to oneDNN's layout.
    """

    out_features: int
    packed: bool
    dtype: torch.dtype
    widens: bool
    product: Tensor
    product_bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None, *, packed: bool) -> None:
        super().__init__()
        product, product_bias = (pack_weight(weight.contiguous()), bias) if packed else pad_vocabulary(weight, bias)
        # Assigning attributes of a module one by one takes as long as a product. Tensors, not parameters: a packed model has no
        # weights of its own.
        self.__dict__.update(
            out_features=len(weight),
            packed=packed,
            dtype=weight.dtype,
            widens=weight.dtype.itemsize == 2 and not weight.is_cuda,
            product=product,
            product_bias=product_bias,
        )

    # Called without the hooks of modules, because a step has many small maps.
    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        if x.dtype != self.dtype:  # a conversion or a slice that changes nothing costs as much as a small product
            x = x.to(self.dtype)
        if self.packed:
            rows = x.flatten(0, -2)
            count = len(rows)
            if count % _ALIGNED:
                rows = functional.pad(rows, (0, 0, 0, -count % _ALIGNED))
            found = packed_linear(rows, self.product, self.product_bias)[:count].unflatten(0, x.shape[:-1])
        else:
            found = functional.linear(x, self.product, self.product_bias)
            found = found if found.shape[-1] == self.out_features else found[..., : self.out_features]
        return found.float() if self.widens else found


class QuantizedLinear(nn.Module):
    """x Wᵀ + b in float32, with the product in 8-bit integers.

    Each row of W and of x is scaled so that its highest absolute value becomes 127, and rounded. The scale of a row of x
    depends on that row only.

    Args:
        weight: W.
        bias: b.
    """

    dtype = torch.float32

    def __init__(self, weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None) -> None:
        super().__init__()
        rounded, highest = _rounded(weight.float())
        self.out_features, self.product = len(weight), rounded.t().contiguous()
        self.scale = highest[:, 0] / 127**2
        self.product_bias = self.scale.new_zeros(len(weight)) if bias is None else bias.float()

    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        rounded, highest = _rounded(x.flatten(0, -2).float())
        found = self.scale.new_empty(len(rounded), self.out_features)
        for start in range(0, len(rounded), _BLOCK_ROWS):
            block = found[start : start + _BLOCK_ROWS]
            block.copy_(int8_product(rounded[start : start + _BLOCK_ROWS], self.product)).mul_(self.scale)
            torch.addcmul(self.product_bias, block, highest[start : start + _BLOCK_ROWS], out=block)
        return found.unflatten(0, x.shape[:-1])


def _rounded(rows: Float[Tensor, "R D"]) -> tuple[Int8[Tensor, "R D"], Float[Tensor, "R 1"]]:
    """Scale each row so that its highest absolute value becomes 127, and round it; return the highest values too."""
    highest = rows.abs().amax(1, keepdim=True).clamp_(min=1e-30)  # no division by zero for a row of zeros
    return (rows * (127 / highest)).round_().to(torch.int8), highest


def pack_linear(linears: Sequence[nn.Linear], rows: int, int8: bool = False) -> PackedLinear | QuantizedLinear | None:
    """Pack a map, or several maps of the same input, whose outputs are then concatenated.

    Products run in 8-bit integers if `int8`, otherwise in autocast's dtype, or in the dtype of the weight without autocast.

    Args:
        linears: The maps.
        rows: Number of sentences in the search.
        int8: If True and the weight is on a CPU, round it to 8-bit integers.

    Returns:
        The packed map. None if calling one of the maps computes more than x Wᵀ + b (an adapter, a hook, a subclass), or only
        some maps have a bias.
    """
    if not all(map(is_plain, linears)) or len({linear.bias is None for linear in linears}) > 1:
        return None
    dtype, on_cpu = compute_dtype(linears[0].weight), linears[0].weight.device.type == "cpu"
    weight, bias = _join([one.weight for one in linears]).detach().to(dtype), None
    if linears[0].bias is not None:
        bias = _join([one.bias for one in linears]).detach().to(dtype)
    if int8 and on_cpu:
        return QuantizedLinear(weight, bias)
    return PackedLinear(weight, bias, packed=on_cpu and rows >= _SENTENCES and can_pack(dtype))


def _join(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(tensors)) if len(tensors) > 1 else tensors[0]
