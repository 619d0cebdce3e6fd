"""Several processes on this machine that do the same, as under torchrun: forked, so that nothing is imported anew."""

import multiprocessing
import os
import pickle
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Outcome:
    """What became of a process."""

    value: Any = None
    error: Exception | None = None
    reported: bool = False
    """Whether the error is one that the first process tells."""
    code: int | None = None
    trace: str = ""


_PATIENCE = 120.0
"""Seconds until they are killed."""


def torchrun(rank: int, size: int, port: int) -> dict[str, str]:
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    return {name: str(value) for name, value in names.items()} | {"MASTER_ADDR": "127.0.0.1"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_several(
    work: Callable[[int], Any], size: int = 2, *, launcher: Callable[[int, int, int], dict[str, str]] = torchrun
) -> list[Outcome]:
    """Call `work(rank)` in each of `size` processes at once.

    Args:
        work: Returns something that can be pickled.
        size: How many.
        launcher: What says in the environment who is who.
    """
    context, port = multiprocessing.get_context("fork"), free_port()
    pipes = [context.Pipe(duplex=False) for _ in range(size)]

    def child(rank: int) -> None:
        os.environ.update(launcher(rank, size, port))
        torch.set_num_threads(1)
        try:
            outcome = Outcome(work(rank))
        except Exception as error:
            outcome = Outcome(error=error, reported=getattr(error, "reported", False), trace=traceback.format_exc())
        pipes[rank][1].send_bytes(pickle.dumps(outcome))  # tensors by value

    processes = [context.Process(target=child, args=(rank,)) for rank in range(size)]
    for process in processes:
        process.start()
    outcomes = []
    for receiver, sender in pipes:
        sender.close()
        try:
            outcomes.append(pickle.loads(receiver.recv_bytes()) if receiver.poll(_PATIENCE) else Outcome(trace="timed out"))
        except EOFError:
            outcomes.append(Outcome(trace="ended without a word"))
    for process, outcome in zip(processes, outcomes, strict=True):
        process.join(10)
        process.kill()
        process.join()
        outcome.code = process.exitcode
    return outcomes
