"""Resumed runs and translations that are killed, meet each other, meet a jumping clock, or read what a stranger wrote."""

import csv
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_failures import calls, drive, spot  # noqa: F401 (fixtures)
from test_kills import bundle_bytes, check_tidy

from regard.cli.main import main
from regard.disk import seal_of
from regard.errors import BundleError
from regard.training import fit, resume
from regard.training.folder import RunFolder, render_facts

KILLS = 25


def check_kills(drive, work):  # noqa: F811
    """Kill a work at 25 of its writes or more, evenly from the first to the last; nothing may be lost or half-written."""
    total = drive(work, "writes", "--kill", "--last", 1)[0]
    assert total >= KILLS
    _, failures = drive(work, "writes", "--kill", "--every", total // KILLS)
    assert len(failures) >= KILLS
    for failure in failures:
        assert (failure["code"], failure["wrong"], failure["again"]) == (-9, "", 0), failure


@pytest.mark.faults
def test_a_translation_killed_at_a_write(drive):  # noqa: F811
    for failure in drive("translate", "writes", "--kill", "--every", 3)[1]:
        assert (failure["code"], failure["wrong"], failure["again"]) == (-9, "", 0), failure


@pytest.mark.faults
@pytest.mark.parametrize("work", ["resume", "translate-many"])
def test_killed_at_25_writes(drive, work):  # noqa: F811
    check_kills(drive, work)


@pytest.mark.faults
def test_two_resumes_at_once(fresh, whole):
    """One of them trains; the other is told so, or comes late and finds a run that has ended."""
    for _ in range(3):
        shutil.copytree(whole, fresh.out)
        folder = RunFolder(fresh.out)
        for path in (*Path(fresh.out).glob("*.*"), folder.checkpoints / "last.ckpt"):
            path.unlink()  # back to the checkpoint before the last, and without a model
        command = [sys.executable, "-m", "regard", "resume", fresh.out]
        both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate()[1] for process in both]
        codes = [process.returncode for process in both]
        assert 0 in codes, said
        for code, text in zip(codes, said, strict=True):
            # A lock is taken before its holder writes its number into the file: for that moment it is "another process".
            assert code == 0 or re.search(r"is being written to by (process \d+ on this machine|another process),", text), text
            assert "Traceback" not in text
        ours, theirs = bundle_bytes(fresh.out), bundle_bytes(whole)
        assert ours["model.safetensors"] == theirs["model.safetensors"]
        assert ours.keys() == theirs.keys()
        check_tidy(Path(fresh.out))
        shutil.rmtree(fresh.out)


@pytest.fixture
def jumping_clock(monkeypatch):
    """A time of day that jumps thirty years back and forth at each look, and files that were written then."""
    now, jumps = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: now() + (-1) ** next(jumps) * 10**9)
    sync, times = os.fsync, iter([-(10**9), 10**9, 0] * 10**5)

    def written_then(handle):
        sync(handle)
        os.utime(handle, (now() + next(times),) * 2)

    monkeypatch.setattr(os, "fsync", written_then)


def rows(folder):
    """The rows of the run's log, without what depends on the machine's speed."""
    with Path(folder, "logs", "metrics.csv").open() as file:
        return [{name: row[name] for name in row if "second" not in name} for row in csv.DictReader(file)]


def test_a_clock_that_jumps_changes_no_checkpoint_log_or_progress(fresh, whole, jumping_clock, capfd):
    fit(replace(fresh, training=replace(fresh.training, max_steps=13)), progress=False)
    state, damage = RunFolder(fresh.out).load_checkpoint()
    assert (state["progress"]["step"], damage) == (13, "")
    shutil.rmtree(fresh.out)
    fit(fresh)
    said = capfd.readouterr().err
    assert "-" not in said.partition("trained ")[2].partition(" s,")[0]  # no negative time
    assert bundle_bytes(fresh.out)["model.safetensors"] == bundle_bytes(whole)["model.safetensors"]
    assert rows(fresh.out) == rows(whole)
    state, _ = RunFolder(fresh.out).load_checkpoint()
    other, _ = RunFolder(whole).load_checkpoint()
    assert 0 <= state["progress"]["seconds"] < 1000
    assert state["keep"] == other["keep"]
    names = [sorted(path.name for path in Path(folder, "checkpoints").iterdir()) for folder in (fresh.out, whole)]
    assert names[0] == names[1]


class _Payload:
    """Runs a command where it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.system, (f"touch {self._path}",)


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def larger(content):
    """A checkpoint whose tensors claim other sizes than the file holds."""
    source, made = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            # A pickled number of one byte becomes one of four: 2**31 − 1.
            target.writestr(name, data.replace(b"K\x06", b"J\xff\xff\xff\x7f") if name.endswith("data.pkl") else data)
    return made.getvalue()


def changed(**parts):
    return lambda state, path: saved({**state, **parts})


def without(name):
    return lambda state, path: saved({key: value for key, value in state.items() if key != name})


def with_progress(**parts):
    return lambda state, path: saved({**state, "progress": {**state["progress"], **parts}})


def with_weights(change):
    return lambda state, path: saved({**state, "model": {name: change(value) for name, value in state["model"].items()}})


HOSTILE = {
    "a payload": lambda state, path: saved({**state, "history": _Payload(path)}),
    "a payload, the old format": lambda state, path: saved(_Payload(path), _use_new_zipfile_serialization=False),
    "a payload, plain": lambda state, path: pickle.dumps(_Payload(path)),
    "huge sizes": lambda state, path: larger(saved(state)),
    "doubles": with_weights(torch.Tensor.double),
    "whole numbers": with_weights(torch.Tensor.int),
    "no tensors": with_weights(lambda value: "x"),
    "another shape": with_weights(lambda value: torch.zeros(3)),
    "meta tensors": with_weights(lambda value: value.to("meta")),
    "a list": lambda state, path: saved([state]),
    "other progress": with_progress(step="7"),
    "more progress": with_progress(extra=1),
    "other weights": changed(keep=["../../x"]),
    "no list of weights": without("keep"),
    "other history": changed(history=[1, 2]),
    "other columns": changed(history=[{"x": 1}]),
    "no numbers of updates": with_progress(scores={"x": {}}),
    "other scores": with_progress(scores={1: {"x": 1}}),
    "no optimizer": without("optimizer"),
    "another optimizer": changed(optimizer={"state": {}, "param_groups": []}),
    "no model": without("model"),
    "no progress": without("progress"),
    "no format": without("format"),
    "nothing": lambda state, path: b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_checkpoints_run_nothing_and_lose_nothing(ended, tmp_path, capfd, name):
    """Its seal fits, so that nothing but its content is wrong."""
    state, _ = RunFolder(ended).load_checkpoint()
    (ended / "checkpoints" / "previous.ckpt").unlink(missing_ok=True)
    content = HOSTILE[name](state, tmp_path / "run")
    (ended / "checkpoints" / "last.ckpt").write_bytes(content + seal_of(content))
    before = bundle_bytes(ended)
    assert main(["resume", str(ended)]) == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("regard: ")
    assert "cannot resume" in said
    assert "trust" not in said  # PyTorch's advice to load the file without protection
    assert not (tmp_path / "run").exists()
    assert bundle_bytes(ended) == before


def test_a_payload_does_not_keep_the_checkpoint_before_from_being_used(ended, tmp_path):
    content = HOSTILE["a payload"]({}, tmp_path / "run")
    (ended / "checkpoints" / "last.ckpt").write_bytes(content + seal_of(content))
    before = bundle_bytes(ended)["model.safetensors"]
    resume(ended, progress=False)
    assert not (tmp_path / "run").exists()
    assert bundle_bytes(ended)["model.safetensors"] == before


VALUES = (None, True, -1, 7, 2**70, 10**400, 0.5, 1e308, float("nan"), "", "\x1b]0;x\x07", [], [1], {}, {"x": {}}, {"step": 1})


def forge(folder, **facts):
    """Change facts about a run, with a checksum that fits."""
    path = folder / "checkpoints" / "run.json"
    plain = {name: value for name, value in json.loads(path.read_bytes()).items() if name != "checksum"}
    path.write_bytes(render_facts({**plain, **facts}))


def facts_of(folder):
    return json.loads((folder / "checkpoints" / "run.json").read_bytes())


def test_forged_facts_of_every_type(ended, capfd):
    """Each is read or refused, and what a field may not be is refused."""
    true = facts_of(ended)
    for name in true:
        for value in VALUES:
            forge(ended, **{**true, name: value})
            try:
                RunFolder(ended).read_start()
            except BundleError as error:
                assert f"{name}" in str(error) or "checksum" in str(error) or name == "settings", (name, value)  # noqa: PT017
            else:
                assert type(value) is type(true[name]), (name, value)


@pytest.mark.parametrize("facts", [{"change": {"step": 1}}, {"estimated": {"x": 1}}])
def test_facts_of_another_version(ended, capfd, facts):
    forge(ended, **facts)
    before = bundle_bytes(ended)
    assert main(["resume", str(ended)]) == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert "cannot resume" in said
    assert "checkpoints/run.json" in said
    assert bundle_bytes(ended) == before


@pytest.mark.parametrize("change", [lambda value: value.double(), lambda value: "x", lambda value: torch.zeros(2, 2)])
def test_hostile_weights_of_validations(ended, capfd, change):
    folder = RunFolder(ended)
    state, _ = folder.load_checkpoint()
    step = state["keep"][-1]
    folder.save_weights(step, {name: change(value) for name, value in state["model"].items()})
    assert main(["resume", str(ended)]) == 2
    assert f"the weights of update {step} don't fit the model: weights." in capfd.readouterr().err
