"""Connect the processes of a run, and disconnect them at its end."""

import atexit
import gc
import os
import re
import socket
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
"""Maximum time that a process waits for another one that is alive."""
_LOWEST_PORT, _PORTS = 15_000, 10_000
"""Lowest port and number of ports for SLURM jobs. There are many, so that two jobs on one host rarely use the same port."""


@contextmanager
def joined() -> Iterator[Team]:
    """Connect to the other processes of this run, if the environment defines some, and disconnect at the end.

    If one process dies for any reason, the others end within seconds.

    Yields:
        The team of all processes of the run; this process alone if there are no others.

    Raises:
        ConfigError: If the environment is invalid, or the other processes cannot be reached.
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
    """Return the host and the port of the first process, to which the others connect.

    torchrun sets MASTER_ADDR and MASTER_PORT. Under SLURM, unless these variables are set, the host is the first node of the
    step, and the port is computed from the job's number. Otherwise, the defaults are 127.0.0.1 and 15000.

    Raises:
        ConfigError: If the port is not a number.
    """
    host, job = "127.0.0.1", environment.get("SLURM_JOB_ID", "")
    if "WORLD_SIZE" not in environment:
        host = _first_node(environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_NODELIST", "")) or host
    port = _LOWEST_PORT + int(job) % _PORTS if job.isdecimal() else _LOWEST_PORT
    return environment.get("MASTER_ADDR", host), read_number(environment, "MASTER_PORT", str(port))


def _first_node(nodes: str) -> str:
    """Return the first host of a SLURM list: for `gpu[03-05,9],cpu1`, it is gpu03."""
    found = re.match(r"([^,\[]*)(?:\[(\w+)[^\]]*\])?([^,\[]*)", nodes)
    assert found is not None  # each part may be empty
    return "".join(part or "" for part in found.groups())


def _connect(ranks: Ranks) -> None:
    """Create PyTorch's default process group, which exists until the process ends."""
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
        store = _local_store(ranks, port) if ranks.local_size == ranks.world_size else None
        dist.init_process_group(backend, store=store, rank=ranks.rank, world_size=ranks.world_size)
    except (RuntimeError, ValueError, OSError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError(
            f"process {ranks.rank} of {ranks.world_size} cannot reach the others at {host}:{port} ({why}); check "
            "that the hosts know each other's names, and that the port is free and open"
        ) from error
    atexit.register(disconnect)


def _local_store(ranks: Ranks, port: int) -> dist.Store | None:
    """Connect the processes of one host over its loopback interface only, so that other hosts cannot connect.

    Returns:
        The store that the processes share; None if they use torchrun's, which listens on all interfaces.
    """
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if loopback:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    listener = socket.create_server(("127.0.0.1", port)).detach() if ranks.first else None
    return dist.TCPStore("127.0.0.1", port, ranks.world_size, ranks.first, master_listen_fd=listener)


def disconnect() -> None:
    """Close PyTorch's default process group at the end of the process."""
    # After an error, closing the group would wait for processes that have ended.
    if dist.is_initialized() and not Watch.someone_is_lost:
        dist.destroy_process_group()
        # `destroy_process_group` only drops a reference to the group. gloo's threads end with the last reference, which
        # reference cycles of the wrapped model may hold, so these are collected now. A thread that releases a tensor while
        # Python shuts down would abort the process (PyTorch issue 190489).
        gc.collect()
