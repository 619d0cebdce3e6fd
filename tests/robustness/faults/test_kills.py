"""A run that is killed again and again ends with the bytes of one that nothing disturbed, and loses no checkpoint."""

import random
import shutil
from pathlib import Path

import pytest
from lives import Death, begin_or_resume, draw_death, live, live_by_command

from regard.bundle import load_bundle
from regard.training.folder import RunFolder

SEED = 20261121
"""Of the moments of death. Those by the clock fall where the machine's speed lets them."""

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def bundle_bytes(folder):
    """Every file of the model."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def check_nothing_lost(folder, kept):
    """The last checkpoint that was written to its end is there, or a later one; and so is the model. Gives its update."""
    folder = RunFolder(folder)
    if kept >= 0:
        folder.read_start()
    state, damage = folder.load_checkpoint()
    assert not damage
    found = -1 if state is None else state["progress"]["step"]
    assert found >= kept
    if (folder.path / "signature.json").exists() or (folder.path / ".incoming").exists():
        load_bundle(folder.path)
    return found


def check_tidy(folder):
    """Nothing is left that was to be renamed, moved or unlocked."""
    left = [path for path in folder.rglob("*") if path.suffix == ".unfinished" or path.name == "lock"]
    assert not left + list(folder.glob(".*"))


def kill(config, whole, number, live_until, draw, *, but=()):
    """Go through lives until so many deaths are died and the last run has ended; each run that ends is compared.

    Args:
        config: The run.
        whole: The folder of one that nothing disturbed.
        number: Deaths, not counting those that a life ended before.
        live_until: A life, by its death.
        draw: Gives the next death.
        but: Files that are not compared.
    """
    folder, kept, died = Path(config.out), -1, 0
    while True:
        end = live_until(draw() if died < number else Death())
        assert end.code in (0, -9), end.said
        assert "Traceback" not in end.said
        kept = max(kept, end.kept)
        if end.code:
            died += 1
            kept = check_nothing_lost(folder, kept)
            continue
        ours, theirs = bundle_bytes(folder), bundle_bytes(whole)
        assert ours.keys() == theirs.keys()
        assert [name for name in ours if ours[name] != theirs[name] and name not in but] == []
        check_tidy(folder)
        if died == number:
            return
        shutil.rmtree(folder)
        kept = -1


def forked(config):
    return lambda death: live(lambda: begin_or_resume(config), death, folder=Path(config.out))


def test_killed_a_few_times(fresh, whole):
    draw = random.Random(SEED)
    kill(fresh, whole, 3, forked(fresh), lambda: Death(moments=draw.randint(1, 60)))


@pytest.mark.faults
def test_killed_forty_times(fresh, whole):
    draw = random.Random(SEED + 1)
    kill(fresh, whole, 40, forked(fresh), lambda: draw_death(draw, 1.0))


@pytest.mark.faults
def test_the_command_killed_ten_times(fresh, whole):
    """From the start of Python, by the processor's clock, or at operations on files, those of preparing the data among them."""
    draw, cache = random.Random(SEED + 2), Path(fresh.data.cache)

    def live_until(death):
        if not Path(fresh.out).exists():
            shutil.rmtree(cache, ignore_errors=True)
        return live_by_command(fresh, death)

    def draw_any():
        return Death(moments=draw.randint(1, 150)) if draw.random() < 0.6 else Death(seconds=draw.uniform(0.0, 5.0))

    # A clone's commit is named in these, and another may have been made since the undisturbed run.
    kill(fresh, whole, 10, live_until, draw_any, but=("signature.json", "README.md"))
