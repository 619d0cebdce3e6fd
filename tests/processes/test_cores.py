"""Processors that this process may use: its affinity and its quotas."""

import os

import pytest

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
    assert count_cores(cgroups=tmp_path / "cgroup", own=own) == expected
    assert count_cores(3, cgroups=tmp_path / "cgroup", own=own) == max(1, expected // 3)


@pytest.mark.usefixtures("allowed")
def test_without_cgroups(tmp_path):
    assert count_cores(cgroups=tmp_path / "none", own=tmp_path / "none") == 8


def test_of_this_process():
    assert 1 <= count_cores() <= os.cpu_count()
