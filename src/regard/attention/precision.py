"""The types in which results are computed, also under autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of products with a tensor: autocast's if it is on and the tensor is not float64, else the tensor's."""
    device = tensor.device.type
    if torch.is_autocast_enabled(device) and tensor.dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def at_least_float32(numbers: Tensor) -> Tensor:
    """Return a float64 tensor unchanged, and any other tensor converted to float32."""
    return numbers if numbers.dtype == torch.float64 else numbers.float()


def without_float16(device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which autocast does not compute products in float16, whose largest number is 65,504."""
    active = torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type) == torch.float16
    return torch.autocast(device.type, enabled=False) if active else nullcontext()
