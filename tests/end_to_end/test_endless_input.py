"""Endless lines, files of gigabytes and gzip bombs, given to the real command: bounded memory, one line out per line."""

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
MOST_MEMORY = 1 << 30  # bytes
MOST_SECONDS = 60
"""Of processor time, for a line of 100 MB."""


def write_sparse(path):
    """Write a line of 10 GB that takes no space."""
    with path.open("wb") as file:
        file.truncate(10 << 30)
    return path, 1


def write_bomb(path):
    """Write 3 GB of zeros and a line, as 3 MB of gzip."""
    part = gzip.compress(bytes(100 << 20))
    path = path.with_suffix(".gz")
    path.write_bytes(part * 30 + gzip.compress(b"\none red cat .\n"))
    return path, 2


def write_two_words(path):
    """Write a line of two words of 50 MB, and another line."""
    path.write_bytes(b"a" * 50_000_000 + b" " + b"b" * 50_000_000 + b"\none red cat .\n")
    return path, 2


def write_many_words(path):
    """Write a line of 100 MB of words that the model knows, and another line."""
    path.write_bytes(b"red cat " * 12_500_000 + b"\none red cat .\n")
    return path, 2


def peak_memory(process):
    """Return the bytes that a process has had in memory at most; 0 once it has ended.

    `ru_maxrss` would count what the tests themselves had in memory when they started the process.
    """
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("make", [write_sparse, write_bomb, write_two_words, write_many_words])
def test_translating_endless_lines(run, tmp_path, make):
    path, lines = make(tmp_path / "in.txt")
    out = tmp_path / "out.txt"
    command = [sys.executable, "-m", "regard", "translate", str(run), "--input", str(path), "--output", str(out), "--threads=1"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, stderr=said)
        peak = 0
        while (found := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            peak = max(peak, peak_memory(process.pid))
            time.sleep(0.02)
        _, status, used = found
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (tmp_path / "said").read_text()
    assert 0 < peak < MOST_MEMORY
    assert make not in (write_two_words, write_many_words) or used.ru_utime + used.ru_stime < MOST_SECONDS
    assert "characters: 1 (the first: line 1); only the first 2,048 of each were read" in (tmp_path / "said").read_text()
    assert out.read_text().count("\n") == lines
    print(f"{make.__name__}: {peak >> 20} MB, {used.ru_utime + used.ru_stime:.0f} s")
