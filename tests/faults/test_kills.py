"""A run that is killed again and again ends with the bytes of one that nothing disturbed, and loses no checkpoint."""

import random
import shutil
from pathlib import Path

import pytest
from lives import Death, begin_or_resume, draw_death, live

from regard.bundle import load_bundle
from regard.training.folder import RunFolder

SEED = 20261121
"""Of the moments of death. Those by the clock fall where the machine's speed lets them."""

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def bundle_bytes(folder):
    """Every file of the model."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def check_nothing_lost(folder, kept):
    """The last checkpoint that was written to its end is there, or a later one; and so is the model."""
    folder = RunFolder(folder)
    if kept >= 0:
        folder.read_start()
        state, damage = folder.load_checkpoint()
        assert not damage
        assert state["progress"]["step"] >= kept
    if (folder.path / "signature.json").exists() or (folder.path / ".incoming").exists():
        load_bundle(folder.path)


def kill(config, whole, deaths):
    """Go through lives until all deaths are died and the last run has ended; each run that ends is compared."""
    folder, kept, runs = Path(config.out), -1, 0
    deaths = list(deaths)
    while True:
        end = live(lambda: begin_or_resume(config), deaths.pop() if deaths else Death(), folder=folder)
        assert end.code in (0, -9), end.said
        assert "Traceback" not in end.said
        kept = max(kept, end.kept)
        if end.code:
            check_nothing_lost(folder, kept)
            continue
        assert bundle_bytes(folder) == bundle_bytes(whole)
        runs += 1
        if not deaths:
            return runs
        shutil.rmtree(folder)
        kept = -1


def test_killed_a_few_times(fresh, whole):
    draw = random.Random(SEED)
    assert kill(fresh, whole, [Death(moments=draw.randint(1, 60)) for _ in range(3)])


@pytest.mark.faults
def test_killed_fifty_times(fresh, whole):
    draw = random.Random(SEED + 1)
    assert kill(fresh, whole, [draw_death(draw, 1.0) for _ in range(50)])


def test_the_same_command_twice_gives_the_same_bundle(fresh, whole):
    begin_or_resume(fresh)
    assert bundle_bytes(fresh.out) == bundle_bytes(whole)
