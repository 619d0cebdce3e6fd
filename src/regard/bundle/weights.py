"""A model's tensors in the safetensors format; tied tensors are stored once."""

import json
import math
import struct
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import BundleError, nearest

_LARGEST_HEADER = 1 << 24
_LARGEST_NUMBER = 1 << 63
_MOST_AXES = 64
_WIDTHS = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8, "F64": 8}
"""Number of bytes per value of each type that a model can contain."""


def pack(model: nn.Module) -> bytes:
    """Return the model's parameters and buffers as bytes; equal values give equal bytes.

    A tensor with several names, such as a tied weight, is stored once, under its first name.
    """
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in _own(model).items()})


def unpack(model: nn.Module, data: bytes, path: object, *, given: str = "") -> None:
    """Copy the tensors of a file into the model. Their names, shapes and types must be exactly those of the model.

    Args:
        model: The model; tied weights stay tied.
        data: Result of `pack`; it is not trusted.
        path: Path of the file, for messages.
        given: The part of the model that is the caller's own object, `model` or `attention`, for messages; empty for none.

    Raises:
        BundleError: If the data is damaged, or has other names, shapes or types than the model.
    """
    own = _own(model)
    wanted = {name: tuple(tensor.shape) for name, tensor in own.items()}
    shapes = read_shapes(data, path)
    source = f"the given {given}" if given else "config.yaml and the tokenizers"
    for name in wanted.keys() - shapes.keys():
        model_of = source if given else "the model in config.yaml"
        raise BundleError(f"{path}: the tensor '{name}' is missing{nearest(name, shapes)}; the file is not for {model_of}")
    for name in shapes.keys() - wanted.keys():
        raise BundleError(
            f"{path}: the tensor '{name}' does not belong to the model{nearest(name, wanted)}; "
            f"{source if given else 'config.yaml'} is for another model"
        )
    for name, shape in wanted.items():
        if shapes[name] != shape:
            raise BundleError(f"{path}: the tensor '{name}' has shape {shapes[name]}, expected {shape} according to {source}")
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise BundleError(f"{path} is damaged: {error}; copy it again") from error
    for name, tensor in own.items():
        if tensors[name].dtype != tensor.dtype:
            raise BundleError(f"{path}: the tensor '{name}' has dtype {tensors[name].dtype}, expected {tensor.dtype}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


class Uninitialised(TorchFunctionMode):
    """Context in which new models get no initial weights, because the weights of a file will replace them.

    This saves time. It also avoids the import of PyTorch's compiler, which `normal_` causes on the meta device.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Skip functions that initialise a tensor, and call all others."""
        if getattr(func, "__module__", "") == "torch.nn.init" or func in _DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


_DRAWING = (Tensor.normal_, Tensor.uniform_)


def read_shapes(data: bytes, path: object) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the tensors from the file's header, which is not trusted.

    A header is valid only if the tensors are together as large as the data that follow it. So the shapes cannot ask for more
    memory than the file has.

    Raises:
        BundleError: If there is no valid header, or it does not match the size of the data.
    """
    try:
        if len(data) < 8:
            raise ValueError(f"it has {len(data)} bytes")
        size = struct.unpack("<Q", data[:8])[0]
        if size > len(data) - 8:
            raise ValueError(f"its header claims {size:,} bytes, the file has {len(data):,}")
        if size > _LARGEST_HEADER:
            raise ValueError(f"its header has {size:,} bytes, expected at most {_LARGEST_HEADER:,}")
        header = json.loads(data[8 : 8 + size])
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        taken = sum(_check_entry(name, entry) for name, entry in entries.items())
        if taken != len(data) - 8 - size:
            raise ValueError(f"its tensors take {taken:,} bytes, but {len(data) - 8 - size:,} bytes follow the header")
        return {name: tuple(entry["shape"]) for name, entry in entries.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error) as error:
        raise BundleError(f"{path} is not a safetensors file ({error}); nothing in it was run. Copy the model again") from error


def _check_entry(name: str, entry: dict[str, Any]) -> int:
    """Return the number of bytes of a tensor, after checking that the shape and the offsets in the file agree."""
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    # Many axes, or numbers of thousands of digits, would take hours to multiply.
    if len(shape) > _MOST_AXES or not all(type(x) is int and 0 <= x < _LARGEST_NUMBER for x in (*shape, begin, end)):
        raise ValueError(f"the shape or place of '{name:.60}' is invalid")
    if math.prod(shape) * _WIDTHS[entry["dtype"]] != end - begin:
        raise ValueError(f"the tensor '{name:.60}' takes {end - begin:,} bytes, which does not match its shape")
    return end - begin


def _own(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers by name, each tensor once."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    return tensors
