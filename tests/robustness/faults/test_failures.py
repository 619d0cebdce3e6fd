"""Every write and every allocation of a preparation, a training, a save and a translation fails once, by count.

`failing/calls.c` stands between Python, its libraries and the C library, and lets one call fail. Each failure must end in
success or in one message of regard's. Nothing may be half-written or lost: the same work done again ends as if nothing had
happened.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regard.cli.main import main
from regard.config.loading import render_config
from regard.training.callbacks import Checkpointing

_FAILING = Path(__file__).parent / "failing"
_CUT = "which together give the same update"
"""Said of batches that are split because memory was short: sums are rounded otherwise from then on."""
_ONEDNN = "private_torch.py"
"""oneDNN, which packs weights here, doesn't check whether it got the memory."""
_ABORTS = re.compile(
    "cannot allocate memory for thread-local data: ABORT|memory allocation of [0-9]+ bytes failed|what\\(\\):  std::bad_alloc"
)
"""What the C library (without memory for a new thread), and libraries in Rust and C++ say before they end a process."""
_PANIC = "panicked at"
"""A library in Rust without memory writes a traceback and this by itself, before regard writes its message."""
BLOCK = 4096
"""Bytes: smaller blocks are taken from larger ones, which Python and the C library have already."""


@pytest.fixture(scope="session")
def calls(tmp_path_factory):
    """The library that lets calls fail."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("calls") / "calls.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, _FAILING / "calls.c"], check=True)
    return library


class InterruptedRun(Exception):
    """The power fails."""


inner = Checkpointing.after_update


def stop_at(run, step):
    if run.progress.step == step:
        raise InterruptedRun


@pytest.fixture(scope="session")
def spot(config, tmp_path_factory):
    """A folder with the settings of a run of ten updates, its model, another model, and a translation."""
    spot, draw = tmp_path_factory.mktemp("failing"), random.Random(0)
    lines = sorted({" ".join(draw.choices("abcdefgh", k=draw.randint(2, 7))) for _ in range(60)})
    (spot / "letters.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    data = replace(config.data, train=(str(spot / "letters.tsv"),), dev_size=5, cache=str(spot / "cache"))
    training = replace(
        config.training, max_steps=10, max_epochs=50, accumulate=1, average_last=1, ema_decay=0.0, checkpoint_every=5
    )
    (spot / "run.yaml").write_text(render_config(replace(config, data=data, training=training, out=str(spot / "run"))))
    (spot / "in.txt").write_text("a b c\nd e f g\n")
    (spot / "many.txt").write_text("".join(f"{' '.join(draw.choices('abcdefgh', k=6))}\n" for _ in range(4000)))
    for seed, name in ((["--seed", "7"], "earlier"), ([], "whole")):
        assert main(["train", "translation", "--config", str(spot / "run.yaml"), *seed]) == 0
        (spot / "run").rename(spot / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpointing, "after_update", lambda self, run: (inner(self, run), stop_at(run, 7)))
        with pytest.raises(InterruptedRun):
            main(["train", "translation", "--config", str(spot / "run.yaml")])
    (spot / "run").rename(spot / "begun")
    for name in ("in.txt", "many.txt"):
        output = ["--input", str(spot / name), "--output", str(spot / f"true-{name}")]
        assert main(["translate", str(spot / "whole"), *output]) == 0
    return spot


@pytest.fixture
def drive(calls, spot):
    """`drive(work, kind, *options)`: what each failure led to, and how many calls the work makes."""

    def run(work, kind, *options):
        command = [sys.executable, "-X", "faulthandler", _FAILING / "drive.py", work, spot, kind, *map(str, options)]
        done = subprocess.run(command, env={**os.environ, "LD_PRELOAD": str(calls)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        total, *found = map(json.loads, done.stdout.splitlines())
        assert found
        return total["total"], found

    return run


def check(failure):
    """Hold a failure to what is promised of all."""
    code, said, number = failure["code"], failure["said"], failure["number"]
    assert "Traceback" not in said or _PANIC in said, (number, said)
    packing = code == -11 and _ONEDNN in said[said.index("Fatal Python error") :][:600]
    if packing or (code in (-6, 127) and _ABORTS.search(said)):
        code = 2
    else:
        assert code in (0, 2), (number, code, said)
        assert code == 0 or said.splitlines()[-1].startswith("regard: "), (number, said)
    if not (code == 0 and _CUT in said):
        assert (failure["wrong"], failure["again"]) == ("", 0), (number, said, failure)
    return code


@pytest.mark.faults
def test_some_writes_fail(drive):
    for work, every in (("translate", 2), ("save", 19)):
        assert {check(failure) for failure in drive(work, "writes", "--every", every)[1]} >= {2}


@pytest.mark.faults
@pytest.mark.parametrize(("work", "fewest"), [("train", 250), ("save", 50), ("translate", 6)])
def test_every_write_fails_once(drive, work, fewest):
    total, failures = drive(work, "writes")
    assert len(failures) == total >= fewest
    assert sum(map(check, failures)) >= fewest  # most end with exit code 2


@pytest.mark.faults
@pytest.mark.parametrize(("work", "every"), [("train", 3), ("save", 1), ("translate", 1)])
def test_every_write_after_one_fails(drive, work, every):
    for failure in drive(work, "writes", "--always", "--every", every)[1]:
        check(failure)


@pytest.mark.faults
@pytest.mark.parametrize(("work", "fewest"), [("train", 800), ("save", 20), ("translate", 20)])
def test_every_allocation_fails_once(drive, work, fewest):
    total, failures = drive(work, "allocations", "--smallest", BLOCK)
    assert len(failures) == total >= fewest
    assert 2 in set(map(check, failures))
