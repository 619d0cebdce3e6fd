"""A model's tensors in the safetensors format; tied tensors are stored once."""

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import BundleError, nearest


def pack(model: nn.Module) -> bytes:
    """Return the model's parameters and buffers as bytes; equal values give equal bytes.

    A tensor with several names, such as a tied weight, is stored once, under its first name.
    """
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in stored_tensors(model).items()})


def read_tensors(data: bytes, path: object) -> dict[str, Tensor]:
    """Return the tensors of a file, which is not trusted, by name.

    The library accepts a header only if the tensors are together as large as the data that follow it. So their shapes cannot
    ask for more memory than the file has.
    """
    try:
        return load(data)
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise BundleError(f"{path} is not a safetensors file ({error}); nothing in it was run. Copy the model again") from error


def fill(model: nn.Module, tensors: Mapping[str, Tensor], path: object, *, given: str = "") -> None:
    """Copy the tensors of a file, whose path is for messages, into a model; tied weights stay tied.

    `given` names the part of the model that is the caller's own object, `model` or `attention`; empty for none.

    Raises:
        BundleError: If the names, shapes or types of the tensors are not exactly those of the model.
    """
    own = stored_tensors(model)
    source = f"the given {given}" if given else "config.yaml and the tokenizers"
    for name in own.keys() - tensors.keys():
        model_of = source if given else "the model in config.yaml"
        raise BundleError(f"{path}: the tensor '{name}' is missing{nearest(name, tensors)}; the file is not for {model_of}")
    for name in tensors.keys() - own.keys():
        raise BundleError(
            f"{path}: the tensor '{name}' does not belong to the model{nearest(name, own)}; "
            f"{source if given else 'config.yaml'} is for another model"
        )
    for name, tensor in own.items():
        found, shape = tensors[name], tuple(tensor.shape)
        if found.shape != tensor.shape:
            raise BundleError(
                f"{path}: the tensor '{name}' has shape {tuple(found.shape)}, expected {shape} according to {source}"
            )
        if found.dtype != tensor.dtype:
            raise BundleError(f"{path}: the tensor '{name}' has dtype {found.dtype}, expected {tensor.dtype}")
    # Only now, when everything has been checked, so that after an error the given model is unchanged.
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers by name, each tensor once."""
    tensors: dict[int, tuple[str, Tensor]] = {}  # by identity: tied weights are one tensor with several names
    for name, tensor in model.state_dict(keep_vars=True).items():
        tensors.setdefault(id(tensor), (name, tensor))
    return dict(tensors.values())


class Uninitialised(TorchFunctionMode):
    """Context in which new models get no initial weights, because the weights of a file will replace them.

    This saves time. It also avoids the import of PyTorch's compiler, which `normal_` causes on the meta device.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init" or func in (Tensor.normal_, Tensor.uniform_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
