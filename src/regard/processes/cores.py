"""Count the processors that this process may use, which can be fewer than the machine has, and set how threads wait."""

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

# Number of times that a thread checks whether its work has come, before it sleeps: some microseconds. With 0, as `passive`
# says, two threads train a small model no faster than one; with 20,000 (libgomp's default is 300,000), another program on the
# machine makes training five times as slow as one thread (benchmarks/log.md).
_SPINS = "1000"
_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def wait_passively(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let waiting threads sleep, unless the environment says how they wait; OpenMP reads it when torch is imported."""
    if "OMP_WAIT_POLICY" not in environment:
        environment["OMP_WAIT_POLICY"] = "passive"
        environment.setdefault("GOMP_SPINCOUNT", _SPINS)


def count_cores(
    processes: int = 1, *, cgroups: Path = _CGROUPS, own: Path = _OWN, environment: Mapping[str, str] = os.environ
) -> int:
    """Count the processors that this process may use, by its CPU affinity, quota of processor time, and environment.

    More threads than the quota make programs slower. The machine's load has no effect, because results must be reproducible.
    If several processes on this host share the processors, the result is the share of one, at least 1.

    Args:
        processes: Number of processes that share the processors.
        cgroups: Folder in which Linux shows quotas.
        own: File that names the control groups of this process.
        environment: Variables, of which OMP_NUM_THREADS and MKL_NUM_THREADS are upper limits. For several processes, 1 does
            not count, because torchrun sets it.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = min([allowed, *map(int, _quotas(cgroups, own))]) // processes
    variables = (environment.get(name, "").split(",")[0].strip() for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))
    threads = (int(value) for value in variables if value.isdecimal())  # of `4,2`, the 2 is for nested regions
    return max(1, min([share, *(number for number in threads if number > (processes > 1))]))


def _quotas(cgroups: Path, own: Path) -> Iterator[float]:
    """Yield the quotas, in processors: version 2 of cgroups from the group of this process up to the root, then version 1."""
    inner = ""
    with suppress(OSError, UnicodeDecodeError):
        inner = next((line[3:].strip("/") for line in own.read_text().splitlines() if line.startswith("0::")), "")
    folder = cgroups / inner
    for group in (folder, *folder.parents):
        if group.is_relative_to(cgroups):
            yield from _quota(group / "cpu.max")
    yield from _quota(cgroups / "cpu" / "cpu.cfs_quota_us", cgroups / "cpu" / "cpu.cfs_period_us")


def _quota(*paths: Path) -> Iterator[float]:
    """Yield quota / period, both read from these files in microseconds; yield nothing if there is no quota (`max` or -1)."""
    with suppress(OSError, ValueError, UnicodeDecodeError):
        quota, period = (int(number) for path in paths for number in path.read_text().split())
        if quota > 0 and period > 0:
            yield quota / period
