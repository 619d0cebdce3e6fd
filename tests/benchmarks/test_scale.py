import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.scale import anonymous_memory, family, main, run_watched

from regard.errors import RegardError

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")


def test_the_peak_is_that_of_anonymous_memory_and_children_are_seen_on_their_own():
    child = "import time; held = bytearray(60_000_000); time.sleep(0.5)"
    code = (
        f"import json, subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print(json.dumps({{'updates': 7}}))"
    )
    found = run_watched([sys.executable, "-c", code])
    first, second = found["peaks_mb"]
    assert found["updates"] == 7
    assert first < 40
    assert 60 < second < 100


def test_a_mapped_file_is_no_anonymous_memory(tmp_path):
    file = tmp_path / "large"
    file.write_bytes(bytes(50_000_000))
    code = (
        f"import mmap, time; f = open({str(file)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); "
        "s = sum(m[::4096]); time.sleep(0.3); print('{}')"
    )
    assert max(run_watched([sys.executable, "-c", code])["peaks_mb"]) < 40


def test_a_process_that_has_ended_has_no_memory_and_no_family():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert anonymous_memory(process.pid) == 0
    assert family(process.pid) == [process.pid]
    assert anonymous_memory(os.getpid()) > 10**6


def test_a_failed_step_is_reported():
    with pytest.raises(RegardError, match="failed with exit code 3"):
        run_watched([sys.executable, "-c", "import sys; sys.exit(3)"])


@pytest.mark.slow
def test_all_steps_run(capfd):
    main(["--pairs", "3000", "--steps", "2", "--lines", "50", "--threads", "1"])
    found = json.loads(capfd.readouterr().out)
    assert found["steps"]["prepare"]["kept"] == 3000
    assert found["steps"]["train"]["updates"] == 2
    assert found["steps"]["translate"]["lines"] == 50
    assert set(found["peak_mb"]) == {"prepare", "train", "translate"}
    with pytest.raises(SystemExit, match="--lines 50: expected 0 to 40"):
        main(["--pairs", "40", "--lines", "50"])
