"""Collective operations of the processes of a run.

Only the first process reads and writes the run's folder, validates and prints; the others get its results. PyTorch's
DistributedDataParallel averages gradients (`training/updater.py`). The operations here use a separate gloo group, which can
wait for hours while the first process prepares data or validates; NCCL cannot.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard import errors
from regard.errors import ConfigError, out_of_memory
from regard.processes.ranks import Ranks

T = TypeVar("T")


class Team:
    """All processes of a run, as seen by one of them. A single process does not communicate.

    Args:
        ranks: Rank of this process.
        group: The process group for communication; None for a single process.
    """

    def __init__(self, ranks: Ranks = Ranks(), group: dist.ProcessGroup | None = None) -> None:  # noqa: B008 (frozen)
        self.ranks, self._group = ranks, group

    @property
    def first(self) -> bool:
        """Whether this is the first process, which reads, writes and prints for all."""
        return self.ranks.first

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.ranks.world_size

    def by_first(self, work: Callable[[], T]) -> T:
        """Call `work` in the first process, and return its result or raise its error in every process.

        The processes exchange JSON and tensors, and no pickles, so that whoever can send to a process cannot run code in it.
        The result consists of numbers, texts, None and tensors, in lists, tuples and dictionaries. An error that is not a
        `RegardError` is a RuntimeError in the other processes.
        """
        if self._group is None:
            return work()
        tensors: list[Tensor] = []
        if not self.first:
            failure, plain = json.loads(self._send(b""))
            if failure:
                name, message, exit_code = failure
                kind = getattr(errors, name, None)
                error: Any = kind(message) if isinstance(kind, type) else RuntimeError(message)
                error.exit_code = exit_code
                raise error
            result: Any = _decode(plain, tensors)
        else:
            try:
                result = work()
                sent = [None, _encode(result, tensors)]
            except Exception as error:
                message = "out of memory" if out_of_memory(error) else str(error)
                self._send(json.dumps([[type(error).__name__, message, getattr(error, "exit_code", 1)], None]).encode())
                raise
            self._send(json.dumps(sent).encode())
        for tensor in tensors:
            if tensor.numel():
                dist.broadcast(tensor.view(-1).view(torch.uint8), 0, group=self._group)
        return result

    def _send(self, data: bytes) -> bytes:
        """Return the first process's bytes in every process."""
        size = torch.tensor([len(data)])
        dist.broadcast(size, 0, group=self._group)
        buffer = torch.zeros(int(size), dtype=torch.uint8)
        if self.first:
            buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        dist.broadcast(buffer, 0, group=self._group)
        return buffer.numpy().tobytes()

    def in_turns(self, work: Callable[[], T]) -> T:
        """Call `work` in process 0, then in one process of each other host, then in all others, and return its result.

        In this order, `work` can create files on each host that the later processes only read.
        """
        if self._group is None:
            return work()
        mine = 0 if self.first else 1 if self.ranks.local_rank == 0 else 2
        for turn in range(3):
            if turn == mine:
                made = work()
            dist.barrier(self._group)
        return made

    def total(self, value: float) -> float:
        """Return the sum of a value over all processes."""
        return self._reduce([value], dist.ReduceOp.SUM)[0]

    def largest(self, *values: int) -> list[int]:
        """Return the maximum of each value over all processes."""
        return [int(value) for value in self._reduce(list(values), dist.ReduceOp.MAX)]

    def _reduce(self, values: list[Any], how: Any) -> list[float]:
        if self._group is None:
            return values
        joint = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(joint, how, group=self._group)
        return joint.tolist()

    def check_alike(
        self, facts: dict[str, Any], advice: str = "start all with the same command, the same files and the same versions"
    ) -> None:
        """Check that all processes have the same settings, data and versions.

        Args:
            facts: Plain data that must be equal in all processes.
            advice: What to do if they are not.

        Raises:
            ConfigError: If a fact differs between processes. All processes raise this error.
        """
        theirs = self.by_first(lambda: facts)
        wrong = next((name for name in facts if facts[name] != theirs.get(name)), None)
        says = "" if wrong is None else f"{wrong} is {facts[wrong]!r:.200} in process {self.ranks.rank}"
        if self.largest(int(wrong is not None))[0]:
            raise ConfigError(
                f"the {self.size} processes differ: {says or 'see the message of another process'}"
                f"{f', and {theirs.get(wrong)!r:.200} in process 0' if wrong else ''}; {advice}"
            )

    def align(self, model: nn.Module) -> None:
        """Copy the weights of the first process to the model in every process."""
        if self._group is not None:
            for value in model.state_dict().values():
                dist.broadcast(value, 0, group=self._group)


def _encode(value: Any, tensors: list[Tensor]) -> Any:
    """Return a value as plain data for JSON, and collect its tensors, which are sent after it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Tensor():
            tensors.append(value.detach().cpu().contiguous())
            return ["tensor", str(value.dtype).removeprefix("torch."), *value.shape]
        case Mapping():
            return ["dict", *(_encode(item, tensors) for item in value.items())]
        case list() | tuple():
            return ["list" if isinstance(value, list) else "tuple", *(_encode(part, tensors) for part in value)]
    raise TypeError(f"by_first: the result contains {type(value).__name__}, expected plain data and tensors")


def _decode(plain: Any, tensors: list[Tensor]) -> Any:
    """Return the value that `_encode` described, with empty tensors, which are also collected."""
    if not isinstance(plain, list):
        return plain
    kind, *parts = plain
    if kind == "tensor":
        tensors.append(torch.empty(parts[1:], dtype=getattr(torch, parts[0])))
        return tensors[-1]
    return {"list": list, "tuple": tuple, "dict": dict}[kind](_decode(part, tensors) for part in parts)
