"""Disks that are full, or turn read-only: said in one message, and the run goes on to the same bytes when they are mended."""

import os
import random
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from lives import begin_or_resume, live
from test_kills import bundle_bytes, check_nothing_lost

from regard.training import fit, resume
from regard.training.callbacks import Validation

SEED = 20261123
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def command(*words):
    return subprocess.run(words, capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path):
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place))
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield place
    while not command("umount", "-l", str(place)).returncode:
        pass


def fill(disk, left):
    """Take all room but so many bytes."""
    state = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(max(0, state.f_bavail * state.f_frsize - left)))


def train_on_full_disks(config, whole, disk, lefts):
    """Let the disk be full at several places in a run; make room each time, and go on."""
    out, met = disk / "run", 0
    config = replace(config, out=str(out))
    for left in lefts:
        fill(disk, left)
        end = live(lambda: begin_or_resume(config), folder=out.parent.parent / "run")
        (disk / "filler").unlink()
        assert end.code in (0, 2), end.said
        assert "Traceback" not in end.said
        assert end.said.count("\n") == bool(end.code)
        if end.code:
            met += 1
            assert "the disk is full" in end.said or "No space left on device" in end.said
            check_nothing_lost(out, end.kept)
        else:
            break
    end = live(lambda: begin_or_resume(config), folder=out.parent.parent / "run")
    assert end.code == 0, end.said
    ours, theirs = bundle_bytes(out), bundle_bytes(whole)
    assert ours["model.safetensors"] == theirs["model.safetensors"]
    assert ours.keys() == theirs.keys()
    return met


def test_a_full_disk_twice(config, whole, disk):
    assert train_on_full_disks(config, whole, disk, [0, 60_000]) >= 1


@pytest.mark.faults
def test_a_full_disk_at_many_places(config, whole, disk):
    draw = random.Random(SEED)
    lefts = [0, 4096, 8192, 12_288, 20_480, *(draw.randrange(4096, 100_000) for _ in range(15))]
    assert train_on_full_disks(config, whole, disk, sorted(lefts)) >= 5


def test_files_that_may_not_grow(fresh, whole):
    """What a quota does, where nothing can be mounted."""

    def limited():
        sys.dont_write_bytecode = True  # Python would leave cut bytecode files beside the package
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))
        begin_or_resume(fresh)

    end = live(limited, folder=Path(fresh.out))
    assert (end.code, end.said.count("\n")) == (2, 1), end.said
    assert "the disk is full" in end.said
    begin_or_resume(fresh)
    assert bundle_bytes(fresh.out) == bundle_bytes(whole)


def test_a_disk_that_turns_read_only(config, whole, disk):
    out = disk / "run"
    config = replace(config, out=str(out))

    def turning():
        inner = Validation.after_update

        def turn(self, run):
            if run.progress.step == 8:  # a second mount over the first: what is open stays so, all else is refused
                command("mount", "--bind", str(disk), str(disk))
                command("mount", "-o", "remount,bind,ro", str(disk))
            inner(self, run)

        Validation.after_update = turn
        fit(config, progress=False)

    end = live(turning, folder=disk.parent / "run")
    assert end.code == 2, end.said
    assert "Read-only file system" in end.said
    assert end.said.count("\n") == 1
    refused = live(lambda: resume(out, progress=False), folder=disk.parent / "run")
    assert refused.code == 2
    assert "Read-only file system" in refused.said
    command("umount", "-l", str(disk))
    check_nothing_lost(out, end.kept)
    resume(out, progress=False)
    assert bundle_bytes(out)["model.safetensors"] == bundle_bytes(whole)["model.safetensors"]
    shutil.rmtree(out)
