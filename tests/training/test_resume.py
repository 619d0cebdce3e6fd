"""A run that is stopped, by whatever means and whenever, and goes on, ends with the bytes of one never stopped."""

import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from quick import quick
from tiny import TinyTranslator

import regard
from regard.config import PlateauConfig
from regard.disk import locked
from regard.errors import BundleError, ConfigError, DataError, Interrupted
from regard.processes.signals import Signals
from regard.processes.team import Team
from regard.training import callbacks, fit, resume
from regard.training.callbacks import Checkpointing, Validation
from regard.training.progress import Reporter


def model_bytes(config):
    return Path(config.out, "model.safetensors").read_bytes()


def run_whole(config, model=TinyTranslator):
    config = replace(config, out=config.out + "-whole")
    fit(config, model=model, progress=False)
    return model_bytes(config)


class Stop(Exception):
    """The power fails."""


@pytest.fixture
def stop_at(monkeypatch):
    """Let the power fail after an update: before or after what belongs to it is kept."""

    def arm(step, *, moment=Validation):
        inner = moment.after_update

        def fail(self, run):
            if run.progress.step == step:
                raise Stop
            inner(self, run)

        monkeypatch.setattr(moment, "after_update", fail)
        return lambda: monkeypatch.setattr(moment, "after_update", inner)

    return arm


@pytest.fixture
def signal_at(monkeypatch):
    """Send a signal while an update is made."""

    def arm(step, number=signal.SIGINT):
        inner = Validation.after_update

        def send(self, run):
            if run.progress.step == step:
                signal.raise_signal(number)
            inner(self, run)

        monkeypatch.setattr(Validation, "after_update", send)

    return arm


SETTINGS = {
    "best": {},
    "last": {"average_last": 1},
    "average": {"average_last": 3, "validate_every": 4, "ema_decay": 0.0},
    "plateau": {"schedule": PlateauConfig(patience=0, warmup_steps=3), "monitor": "loss"},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "muon": {"optimizer": "muon", "weight_decay": 0.1},
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
}


@pytest.mark.parametrize("settings", quick(SETTINGS, {"average", "plateau", "muon", "float16"}.__contains__))
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 6, pytest.param(11, marks=pytest.mark.slow)])
def test_power_failure_in_mid_epoch(config, change, stop_at, settings, step):
    config = change(config, checkpoint_every=5, **settings)
    whole = run_whole(config)
    disarm = stop_at(step)
    with pytest.raises(Stop):
        fit(config, model=TinyTranslator, progress=False)
    disarm()
    resume(config.out, model=TinyTranslator, progress=False)
    assert model_bytes(config) == whole


def test_power_failure_between_validation_and_checkpoint(config, stop_at):
    whole = run_whole(config)
    steps = torch.load(Path(config.out + "-whole", "checkpoints", "last.ckpt"), weights_only=True)["progress"]["step"]
    disarm = stop_at(steps // 3 * 2, moment=Checkpointing)
    with pytest.raises(Stop):
        fit(config, model=TinyTranslator, progress=False)
    disarm()
    resume(config.out, model=TinyTranslator, progress=False)
    assert model_bytes(config) == whole


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_keeps_a_checkpoint_and_says_how_to_resume(config, signal_at, capfd, number, code):
    whole = run_whole(config)
    before = signal.getsignal(number)
    signal_at(7, number)
    with pytest.raises(Interrupted) as caught:
        fit(config, model=TinyTranslator, progress=False)
    assert caught.value.exit_code == code
    assert str(caught.value).startswith("stopped after update 7 of ")
    assert str(caught.value).endswith(f"continue with: regard resume {config.out}")
    assert "stopping: saving a checkpoint" in capfd.readouterr().err
    assert signal.getsignal(number) is before
    signal_at(10_000)
    resume(config.out, model=TinyTranslator, progress=False)
    assert model_bytes(config) == whole


def test_signal_during_a_validation_breaks_it_off_and_resume_makes_up_for_it(config, monkeypatch):
    monkeypatch.setattr(callbacks, "LOGGED_EVERY", 1)
    whole = run_whole(config)
    calls = []

    @contextmanager
    def validating(self, total):
        def send():
            calls.append(1)
            if len(calls) == 1:
                signal.raise_signal(signal.SIGTERM)

        yield send

    monkeypatch.setattr(Reporter, "validating", validating)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    state = torch.load(Path(config.out, "checkpoints", "last.ckpt"), weights_only=True)
    assert state["progress"]["validation_due"]
    assert state["progress"]["epoch"] == 1
    assert not Path(config.out, "model.safetensors").exists()
    resume(config.out, model=TinyTranslator, progress=False)
    assert model_bytes(config) == whole
    assert metrics(config.out) == metrics(config.out + "-whole")


def metrics(out):
    """The lines of the table, without the two columns of speed."""
    return [line.rsplit(",", 2)[0] for line in Path(out, "logs", "metrics.csv").read_text().splitlines()]


def test_metrics_of_a_resumed_run_are_those_of_a_whole_one(config, change, signal_at):
    config = change(config, validate_every=3)
    run_whole(config)
    signal_at(7)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    signal_at(10_000)
    resume(config.out, model=TinyTranslator, progress=False)
    one, other = metrics(config.out), metrics(config.out + "-whole")
    assert one == other
    assert len(one) > 4


def test_the_same_command_twice_gives_the_same_bytes(config):
    assert run_whole(config) == run_whole(replace(config, out=config.out + "-again"))


def test_validation_does_not_disturb_training(config, change):
    often, seldom = (change(replace(config, out=config.out + str(n)), average_last=1, validate_every=n) for n in (1, 1000))
    assert run_whole(often) == run_whole(seldom)


def test_resuming_a_run_that_has_ended_writes_its_model_again(config):
    fit(config, model=TinyTranslator, progress=False)
    before = model_bytes(config)
    Path(config.out, "model.safetensors").unlink()
    resume(config.out, model=TinyTranslator, progress=False)
    assert model_bytes(config) == before


def test_resume_before_the_first_checkpoint_begins_again(config, stop_at):
    whole = run_whole(config)
    disarm = stop_at(1)
    with pytest.raises(Stop):
        fit(config, model=TinyTranslator, progress=False)
    disarm()
    assert not Path(config.out, "checkpoints", "last.ckpt").exists()
    resume(config.out, model=TinyTranslator, progress=False)
    assert model_bytes(config) == whole


def test_resume_wants_a_run(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").touch()
    for name, words in (
        ("empty", "holds no run"),
        ("nowhere", "is not a folder"),
        ("model", "holds a model, but not the checkpoints of its run"),
    ):
        with pytest.raises(ConfigError, match=f"cannot resume '.*{name}': it {words}; name the folder that `regard train`"):
            resume(tmp_path / name)


def test_a_run_that_was_killed_before_its_settings_were_written_is_recognised(config, tmp_path, monkeypatch):
    out = Path(config.out)
    (out / "checkpoints").mkdir(parents=True)
    (out / "checkpoints" / "lock").write_text("1 elsewhere\n")
    (out / "checkpoints" / "run.json.unfinished").write_text("{")
    with pytest.raises(
        ConfigError, match=re.escape(f"cannot resume '{out}': its run was stopped before its settings were written")
    ):
        resume(out)
    with pytest.raises(BundleError, match="holds a run without a model yet"):
        regard.load(out)
    with pytest.raises(BundleError, match="holds a run without a model yet"):
        regard.info(out)
    with (
        locked(out / "checkpoints" / "lock"),
        pytest.raises(ConfigError, match=r"its run is just being started by process \d+ on"),
    ):
        resume(out)
    fit(config, model=TinyTranslator, progress=False)  # the folder is free for a new run


def test_resume_wants_the_same_data(config, signal_at, pairs, tmp_path):
    own = tmp_path / "pairs.tsv"
    own.write_bytes(pairs.read_bytes())
    config = replace(config, data=replace(config.data, train=(str(own),)))
    signal_at(3)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    own.write_bytes(pairs.read_bytes() + b"a b\tb a\n")
    with pytest.raises(DataError, match=r"cannot resume .*pairs.tsv has changed since the run began; put the old file back"):
        resume(config.out, model=TinyTranslator, progress=False)


def test_a_changed_dev_file_is_named(config, signal_at, tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("a b\tb a\nc d\td c\n")
    config = replace(config, data=replace(config.data, dev=(str(dev),)))
    signal_at(3)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    dev.write_text("a b\tb a\nc e\te c\n")
    with pytest.raises(DataError, match=r"letters.tsv or .*dev.tsv has changed since the run began"):
        resume(config.out, model=TinyTranslator, progress=False)


def test_resume_wants_the_same_model(config, signal_at):
    signal_at(3)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    with pytest.raises(ConfigError, match=r"with your own model; resume it from Python: regard.resume\('.*', model=…\)"):
        resume(config.out, progress=False)
    with pytest.raises(BundleError, match="belongs to another model than the one given"):
        resume(config.out, model=lambda source, target: TinyTranslator(source, target, width=8), progress=False)


def test_a_damaged_checkpoint_is_named(config, signal_at):
    signal_at(3)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    path = Path(config.out, "checkpoints", "last.ckpt")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(BundleError, match=r"cannot resume .*last.ckpt is damaged: .*checksum.*; no checkpoint is intact. Copy"):
        resume(config.out, model=TinyTranslator, progress=False)


def test_only_the_weights_that_may_be_needed_are_kept(config, change):
    run_whole(change(config, validate_every=2, average_last=2))
    names = sorted(path.name for path in Path(config.out + "-whole", "checkpoints").iterdir())
    assert len([name for name in names if name.startswith("weights-")]) <= 6  # two and the best for each checkpoint
    assert [name for name in names if name[:7] != "weights"] == ["last.ckpt", "previous.ckpt", "run.json"]


def test_a_second_signal_ends_at_once():
    code = (
        "import signal\nfrom regard.processes.signals import Signals\nfrom regard.processes.team import Team\n"
        "with Signals(Team()) as signals:\n"
        "    signal.raise_signal(signal.SIGINT)\n    assert signals.received == signal.SIGINT\n"
        "    signal.raise_signal(signal.SIGTERM)\n    raise AssertionError\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 143
    assert ended.stderr.strip() == "stopping: saving a checkpoint (interrupt again to stop at once)"


def test_signals_are_left_alone_in_other_threads():
    import threading

    found = []

    def enter():
        with Signals(Team()) as signals:
            found.append(signals.received)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [None]
