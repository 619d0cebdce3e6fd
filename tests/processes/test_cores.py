"""Processors that this process may use: its affinity and its quotas."""

import os
import subprocess
import sys

import pytest

import regard
from regard.cli.main import main
from regard.processes.cores import count_cores


@pytest.fixture
def allowed(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"a/b/cpu.max": "300000 100000"}, 3),
        ({"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000"}, 4),
        ({"a/c/cpu.max": "100000 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "500000", "cpu/cpu.cfs_period_us": "100000"}, 5),
        ({"cpu/cpu.cfs_quota_us": "500000"}, 8),
        ({"cpu.max": "200000 0"}, 8),
        ({"cpu.max": "much"}, 8),
        ({"cpu.max": ""}, 8),
    ],
)
def test_quotas(tmp_path, files, expected):
    own = tmp_path / "own"
    own.write_text("3:cpuset:/x\n0::/a/b\n")
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    assert count_cores(cgroups=tmp_path / "cgroup", own=own, environment={}) == expected
    assert count_cores(3, cgroups=tmp_path / "cgroup", own=own, environment={}) == max(1, expected // 3)


@pytest.mark.usefixtures("allowed")
def test_without_cgroups(tmp_path):
    assert count_cores(cgroups=tmp_path / "none", own=tmp_path / "none", environment={}) == 8


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("environment", "alone", "of_two"),
    [
        ({"OMP_NUM_THREADS": "3"}, 3, 3),
        ({"OMP_NUM_THREADS": "5,2"}, 5, 4),
        ({"MKL_NUM_THREADS": "2"}, 2, 2),
        ({"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "2"}, 2, 2),
        ({"OMP_NUM_THREADS": "1"}, 1, 4),  # torchrun sets 1 for each of several processes
        ({"OMP_NUM_THREADS": "64"}, 8, 4),
        ({"OMP_NUM_THREADS": "0", "MKL_NUM_THREADS": "many"}, 8, 4),
        ({"OMP_NUM_THREADS": ""}, 8, 4),
    ],
)
def test_threads_of_the_environment(tmp_path, environment, alone, of_two):
    where = {"cgroups": tmp_path, "own": tmp_path / "none", "environment": environment}
    assert (count_cores(**where), count_cores(2, **where)) == (alone, of_two)


@pytest.mark.parametrize(("before", "after"), [(None, "passive"), ("active", "active")])
@pytest.mark.parametrize("use", [lambda: main(["--version"]), lambda: regard.load_config])
def test_threads_wait_passively_unless_told_otherwise(monkeypatch, use, before, after):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, before or "")
    monkeypatch.delenv("GOMP_SPINCOUNT")
    if before is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    use()
    assert os.environ["OMP_WAIT_POLICY"] == after
    assert os.environ.get("GOMP_SPINCOUNT") == ("1000" if before is None else None)


def test_the_command_line_sets_the_waiting_before_torch_is_imported():
    script = (
        "import os, sys; from regard.cli.main import main; main(['--version']); "
        "assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    shown = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "passive"


def test_of_this_process():
    assert 1 <= count_cores() <= os.cpu_count()
