"""Files that were cut short or had a bit flipped: each is noticed, and said in one message."""

import random
import shutil
from pathlib import Path

import pytest

from regard.bundle import load_bundle
from regard.cli.main import main
from regard.errors import BundleError
from regard.training.folder import RunFolder

SEED = 20261122


def damage(draw, data):
    """Data cut short, or with one bit flipped."""
    if draw.random() < 0.5:
        return data[: draw.randrange(len(data))]
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


def check_checkpoint(folder):
    """What resuming reads before it goes on."""
    place = RunFolder(folder)
    place.read_start()
    return place.load_checkpoint()


def damage_checkpoints(folder, times, draw):
    """Damage one file after another; each time it is refused, or the checkpoint before is taken and the reason is given."""
    names = sorted(path for path in (folder / "checkpoints").iterdir() if path.name != "previous.ckpt")
    (last, said), counts = check_checkpoint(folder), {"refused": 0, "before": 0}
    needed = {f"weights-{step:08d}.ckpt" for step in last["keep"]}
    names = [path for path in names if not path.name.startswith("weights-") or path.name in needed]
    assert not said
    for _ in range(times):
        path = draw.choice(names)
        good = path.read_bytes()
        path.write_bytes(damage(draw, good))
        try:
            state, said = check_checkpoint(folder)
        except BundleError as error:
            state, said = None, str(error)
        assert path.name in said
        assert "\n" not in said
        assert state is None or state["progress"]["step"] < last["progress"]["step"]
        counts["refused" if state is None else "before"] += 1
        path.write_bytes(good)
    return counts


def damage_bundle(folder, times, draw):
    """Damage one file of a model after another; each time it is refused."""
    names = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "README.md")
    for _ in range(times):
        path = draw.choice(names)
        good = path.read_bytes()
        path.write_bytes(damage(draw, good))
        with pytest.raises(BundleError) as caught:
            load_bundle(folder)
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)
        path.write_bytes(good)
    load_bundle(folder)


def test_some_damage_to_checkpoints_is_noticed(ended):
    assert min(damage_checkpoints(ended, 60, random.Random(SEED)).values()) > 0


def test_some_damage_to_a_bundle_is_noticed(ended):
    damage_bundle(ended, 40, random.Random(SEED))


@pytest.mark.faults
def test_a_thousand_damages_to_checkpoints_are_noticed(ended):
    assert min(damage_checkpoints(ended, 1000, random.Random(SEED + 1)).values()) > 100


@pytest.mark.faults
def test_a_thousand_damages_to_a_bundle_are_noticed(ended):
    damage_bundle(ended, 1000, random.Random(SEED + 1))


def test_resume_falls_back_and_ends_the_same(fresh, whole, capfd):
    shutil.copytree(whole, fresh.out)
    path = Path(fresh.out, "checkpoints", "last.ckpt")
    path.write_bytes(path.read_bytes()[:-10])
    (Path(fresh.out) / "model.safetensors").unlink()
    assert main(["resume", fresh.out]) == 0
    said = capfd.readouterr().err
    assert "going back to the checkpoint before the last" in said
    assert "last.ckpt is damaged: its content does not match its checksum" in said
    assert Path(fresh.out, "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    place = RunFolder(fresh.out)
    assert place.load_checkpoint()[1] == ""  # written anew, and the damaged one is no one's predecessor
    path.unlink()
    assert place.load_checkpoint()[0] is not None


@pytest.mark.parametrize("name", ["last.ckpt", "run.json"])
def test_resume_refuses_in_one_line(ended, capfd, name):
    (ended / "checkpoints" / "previous.ckpt").unlink()
    path = ended / "checkpoints" / name
    path.write_bytes(path.read_bytes().replace(b"e", b"f"))
    assert main(["resume", str(ended)]) == 2
    said = capfd.readouterr().err
    assert f"{name} " in said
    assert "start a new run" in said
    assert "Traceback" not in said
