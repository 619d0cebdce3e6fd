"""The memory of an attention to a source, as the two tensors that graphs pass on: `key` and `value`."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention.base import Attention, Memory
from regard.attention.head_memory import HeadMemory


def pack_memory(memory: Memory) -> tuple[Tensor, Tensor]:
    """Return keys and values; if keys have gates, the gates are appended to the features of the keys."""
    if isinstance(memory, HeadMemory) and memory.gates is not None:
        return torch.cat([memory.key, memory.gates.to(memory.key.dtype)], -1), memory.value
    return memory.key, memory.value


def memory_unpacker(attention: Attention) -> Callable[[Tensor, Tensor, Tensor], Memory]:
    """Return a function that builds the memory from packed keys, values and a key mask."""
    with torch.no_grad():
        example = attention.prepare(torch.zeros(1, 2, attention.key_size))
    if isinstance(example, HeadMemory) and example.gates is not None:
        features = example.key.shape[-1]
        return lambda key, value, mask: HeadMemory(key[..., :features], value, mask, gates=key[..., features:])
    return type(example)
