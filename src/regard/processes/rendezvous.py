"""How the processes of a run find each other, and how they part."""

import atexit
import gc
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from regard.errors import ConfigError, Interrupted, RegardError, TrainingError
from regard.processes.ranks import Ranks, read_number, read_ranks
from regard.processes.team import Team
from regard.processes.watch import GRACE, Watch

_PATIENCE = timedelta(days=30)
"""How long a process waits for another that is alive."""
_LOWEST_PORT, _PORTS = 15_000, 10_000
"""Ports that jobs of SLURM use, so that two on one host don't meet at the same one."""


@contextmanager
def joined() -> Iterator[Team]:
    """Find the other processes of this run, if the environment names some, and part from them in good order at the end.

    If one of them dies, for whatever reason, the others end within seconds.

    Yields:
        The team.

    Raises:
        ConfigError: If the environment is contradictory, or the others cannot be reached.
        TrainingError: If another process ended.
    """
    ranks = read_ranks()
    if ranks.alone:
        yield Team(ranks)
        return
    _connect(ranks)
    control, watched = (dist.new_group(backend="gloo", timeout=_PATIENCE) for _ in range(2))
    watch = Watch(ranks, watched)
    try:
        yield Team(ranks, control)
    except RegardError as error:
        error.told = watch.leave(str(error), in_good_order=isinstance(error, Interrupted)) and not ranks.first
        raise
    except RuntimeError as error:
        if watch.lost.wait(GRACE / 2):
            raise TrainingError(watch.describe()) from error
        raise
    watch.leave("", in_good_order=True)
    for group in (control, watched):
        dist.destroy_process_group(group)


def find_meeting_point(environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """Return the host and the port at which the processes of a launcher meet: those of the first process.

    torchrun sets MASTER_ADDR and MASTER_PORT. Under SLURM, the host is the first of the step's nodes, and the port follows from
    the job's number, unless these variables are set too.

    Raises:
        ConfigError: If the port is not a number.
    """
    host, job = "127.0.0.1", environment.get("SLURM_JOB_ID", "")
    if "WORLD_SIZE" not in environment:
        host = _first_node(environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_NODELIST", "")) or host
    port = _LOWEST_PORT + int(job) % _PORTS if job.isdecimal() else _LOWEST_PORT
    return environment.get("MASTER_ADDR", host), read_number(environment, "MASTER_PORT", str(port))


def _first_node(nodes: str) -> str:
    """Return the first host of a list of SLURM's: `gpu[03-05,9],cpu1` begins with gpu03."""
    found = re.match(r"([^,\[]*)(?:\[(\w+)[^\]]*\])?([^,\[]*)", nodes)
    assert found is not None  # each part may be empty
    return "".join(part or "" for part in found.groups())


def _connect(ranks: Ranks) -> None:
    """Make PyTorch's default group, which lasts as long as the process."""
    if "WORLD_SIZE" in os.environ and "LOCAL_RANK" not in os.environ:
        raise ConfigError(
            f"the environment says that this is process {ranks.rank} of {ranks.world_size}, but not which one on its "
            "host; start it with torchrun or srun, which set LOCAL_RANK and LOCAL_WORLD_SIZE"
        )
    if dist.is_initialized():
        return
    host, port = find_meeting_point()
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = host, str(port)
    try:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, rank=ranks.rank, world_size=ranks.world_size)
    except (RuntimeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError(
            f"process {ranks.rank} of {ranks.world_size} cannot reach the others at {host}:{port} ({why}); is "
            "every host's name known to the others, and the port free and open?"
        ) from error
    atexit.register(disconnect)


def disconnect() -> None:
    """Close PyTorch's default group at the end of the process."""
    # After an error it would wait for processes that are gone.
    if dist.is_initialized() and not Watch.someone_is_lost:
        dist.destroy_process_group()
        # That drops references only, and gloo's threads go with the last one, which the wrapped model's cycles may hold: a
        # thread that lets go of a tensor while Python shuts down aborts the process (PyTorch's issue 190489).
        gc.collect()
