"""Machine settings of a run: device, threads, number format and random numbers."""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.utils.deterministic
from torch import nn

from regard.config import RunConfig
from regard.errors import ConfigError, out_of_memory
from regard.processes.cores import count_cores
from regard.processes.ranks import Ranks

Precision = Literal["float32", "bfloat16", "float16"]

Result = TypeVar("Result")

_LEAST_TOKENS = 8192


@dataclass(frozen=True)
class Machine:
    """Machine settings of a run, with every `auto` resolved."""

    device: torch.device
    threads: int
    precision: Precision = "float32"
    """Number format of the forward pass; weights, gradients and the state of the optimizer stay in float32."""
    processes: int = 1
    """Number of processes that train together; each has its own GPU, or all use the CPU."""

    def autocast(self) -> torch.autocast:
        """Return a context in which the forward pass and the loss are computed in the number format `precision`."""
        dtype = torch.float16 if self.precision == "float16" else torch.bfloat16
        return torch.autocast(self.device.type, dtype=dtype, enabled=self.precision != "float32")

    def to_dict(self) -> dict[str, str | int]:
        """Return the settings and the version of torch as a dictionary; if one of them changes, results may differ."""
        return {
            "device": str(self.device),
            "threads": self.threads,
            "precision": self.precision,
            "processes": self.processes,
            "torch": torch.__version__,
        }


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's parameters; the CPU for a model without any, such as an ONNX graph."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def resolve_machine(config: RunConfig, ranks: Ranks = Ranks()) -> Machine:  # noqa: B008 (frozen)
    """Resolve the device, the number of threads and the precision.

    The processes of a host share its cores, and each uses its own GPU if there are GPUs.

    Raises:
        ConfigError: If the device does not exist, or several processes would have to share it.
    """
    device = resolve_device(_own_device(config.device, ranks))
    threads = config.threads or count_cores(ranks.local_size)
    return Machine(device, threads, _resolve_precision(config.training.precision, device), ranks.world_size)


def _own_device(name: str, ranks: Ranks) -> str:
    if ranks.alone or name == "cpu":
        return name
    if name == "auto" and not torch.cuda.is_available():
        return "cpu"
    if name not in ("auto", "cuda"):
        raise ConfigError(
            f"device is '{name}', and {ranks.world_size} processes cannot share one device; use device cuda, auto or cpu"
        )
    # With some launchers, each process sees only its own GPU.
    return "cuda" if torch.cuda.device_count() == 1 else f"cuda:{ranks.local_rank}"


def resolve_device(name: str) -> torch.device:
    """Return the device of this name; `auto` means a GPU if PyTorch finds one, otherwise the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = device.index or 0
        if index >= count:
            there = f"{count} CUDA device{'s' * (count != 1)}" if count else "no CUDA device that PyTorch can use"
            raise ConfigError(f"device is '{name}', but there is {there}; use device auto or cpu")
        device = torch.device("cuda", index)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device is 'mps', but PyTorch finds no Apple GPU; use device auto or cpu")
    return device


def prediction_tokens(device: torch.device, chosen: int = 0) -> int:
    """Return the maximum number of tokens in a batch without gradients: the chosen number, or, if it is 0, one for the device.

    A GPU gets a token for each MiB of its memory, rounded down to a power of two (65,536 for 80 GB), and others 8,192. What is
    free does not count, so that the same command gives the same batches.
    """
    if chosen or device.type != "cuda":
        return chosen or _LEAST_TOKENS
    size = torch.cuda.get_device_properties(device).total_memory >> 20
    return max(_LEAST_TOKENS, 1 << size.bit_length() - 1)


def in_parts(function: Callable[[Any], Result], rows: Any) -> list[Result]:
    """Return the result of a function of some rows, or the results for halves of them if there is not enough memory for all."""
    try:
        return [function(rows)]
    except RuntimeError as error:
        if len(rows) == 1 or not out_of_memory(error):
            raise
    torch.cuda.empty_cache()  # does nothing without a GPU
    middle = len(rows) // 2
    return [*in_parts(function, rows[:middle]), *in_parts(function, rows[middle:])]


def exact_dtype(device: torch.device) -> torch.dtype:
    """Return the most exact type of real numbers on a device: float64, or float32 on Apple's GPUs."""
    return torch.float32 if device.type == "mps" else torch.float64


def _resolve_precision(precision: Literal["auto"] | Precision, device: torch.device) -> Precision:
    if precision != "auto":
        return precision
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bfloat16"
        # From compute capability 7.0 on (V100, T4), products in float16 are several times faster than in float32.
        return "float16" if torch.cuda.get_device_capability(device) >= (7, 0) else "float32"
    if device.type == "mps":
        return "float32"
    # Without AMX or AVX-512 BF16, products in bfloat16 are emulated and slower than in float32. Intel processors that have
    # AVX-512 BF16 but no AMX, as in some virtual machines, are also slower with bfloat16 (1.45 times in training); AMD's are
    # faster.
    is_fast = torch.cpu._is_amx_tile_supported() or (torch.cpu._is_avx512_bf16_supported() and _is_amd())
    return "bfloat16" if is_fast else "float32"


def _is_amd() -> bool:
    """Return whether the processor is from AMD: only AMD's have SSE4a instructions. False if PyTorch cannot tell."""
    return bool(torch.cpu.get_capabilities().get("sse4a")) if hasattr(torch.cpu, "get_capabilities") else False


deterministic_memory: Any = torch.utils.deterministic  # `Any`, because type checkers do not see attributes set at import


Batch = TypeVar("Batch")


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the tensors of a batch, a dataclass, to a device."""
    if device.type == "cpu":
        return batch
    moved = {
        name: value.to(device, non_blocking=True) for name, value in vars(batch).items() if isinstance(value, torch.Tensor)
    }
    return replace(batch, **moved)  # type: ignore[type-var]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch a model to evaluation mode without gradients while the context is open."""
    training = [part for part in model.modules() if part.training]  # some parts may be in evaluation mode already
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def prepared(machine: Machine, *, deterministic: bool = True) -> Iterator[None]:
    """Set threads and determinism for a run; afterwards, restore the caller's settings and random state.

    With `deterministic`, a GPU uses deterministic algorithms where PyTorch has them.
    """
    threads, python_state, numpy_state = torch.get_num_threads(), random.getstate(), np.random.get_state()
    before, fill = torch.get_deterministic_debug_mode(), deterministic_memory.fill_uninitialized_memory
    devices = [machine.device] if machine.device.type == "cuda" else []
    # oneDNN keeps a kernel of half a megabyte or more for each new shape of a matrix product, by default up to 1,024 kernels.
    # Batches of sentences have many shapes, so this takes gigabytes. oneDNN reads this variable at its first use.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    with torch.random.fork_rng(devices=devices):
        torch.set_num_threads(machine.threads)
        if devices:
            torch.cuda.set_device(machine.device)
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # needed for reproducible results of cuBLAS and cuDNN
            deterministic = deterministic and are_products_deterministic(machine.device)
            torch.use_deterministic_algorithms(deterministic, warn_only=True)
            deterministic_memory.fill_uninitialized_memory = False
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            _set_determinism(before)
            deterministic_memory.fill_uninitialized_memory = fill
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def are_products_deterministic(device: torch.device) -> bool:
    """Return whether PyTorch allows products in its deterministic mode; if not, warn once.

    It reads CUBLAS_WORKSPACE_CONFIG at the first product of a process, which may have run before, as in a notebook.
    """
    before = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(True)
    try:
        torch.mm(*torch.ones(2, 1, 1, device=device))
    except RuntimeError as error:
        if "CUBLAS_WORKSPACE_CONFIG" not in str(error):
            raise
        warnings.warn(
            "this process computed on the GPU before regard could make products deterministic, so the same run may end with "
            "slightly different weights. To avoid this, restart the notebook with os.environ['CUBLAS_WORKSPACE_CONFIG'] = "
            "':4096:8' in its first cell, or set training.deterministic to false",
            stacklevel=3,
        )
        return False
    finally:
        _set_determinism(before)
    return True


@contextmanager
def strictly_deterministic() -> Iterator[None]:
    """Raise an error for an operation without a deterministic form, if the run is deterministic.

    Without this context, such an operation only warns, and PyTorch's fused attention uses a gradient that is not deterministic.
    """
    before = torch.get_deterministic_debug_mode()
    if before:
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        _set_determinism(before)


def _set_determinism(mode: int) -> None:
    """Set the mode of determinism: 0 (off), 1 (warn) or 2 (raise an error), as `torch.get_deterministic_debug_mode` returns it.

    `torch.set_deterministic_debug_mode` would not set the option of PyTorch's compiler that belongs to the mode.
    """
    torch.use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Seed all random numbers of an update from the run's seed, the number of the update and the rank of the process.

    Therefore, an exact resume needs no stored random state, and a validation between two updates does not change the results.
    """
    # Weyl sequence: different steps of a seed have different states, and states of neighbouring seeds are far apart.
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xD1342543DE82EF95 + rank * 0xAF251AF3B0F025B5) % 2**63
    # torch.manual_seed would format a stack trace for each unused GPU library, which takes a millisecond.
    torch.default_generator.manual_seed(mixed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(mixed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(mixed)
    random.seed(mixed)
    np.random.seed(mixed % 2**32)
