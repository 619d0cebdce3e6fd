"""Two runs in one folder, files that change, clocks that jump, versions that change, and memory that does not suffice."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.disk import locked
from regard.errors import ConfigError, DataError, TrainingError
from regard.tasks.translation.train import TrainableTranslator, TranslationTraining
from regard.text import preparation as preparing
from regard.training import fit, resume
from regard.training.callbacks import Validation
from regard.training.folder import RunFolder
from regard.training.updater import split_batch

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_two_runs_do_not_write_one_folder(fresh, whole):
    """The second is refused, by the first one's number; when the first is killed, its lock is gone with it."""
    code = (
        f"import time\nfrom pathlib import Path\nfrom regard.disk import locked\npath = Path({fresh.out!r}, 'checkpoints')\n"
        "path.mkdir(parents=True)\nwith locked(path / 'lock') as holder:\n"
        "    print(repr(holder), flush=True)\n    time.sleep(600)\n"
    )
    first = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert first.stdout.readline() == "''\n"
    with pytest.raises(ConfigError, match=f"is being written to by process {first.pid} on this machine, which trains in it"):
        fit(fresh, progress=False)
    first.kill()
    first.wait()
    first.stdout.close()
    fit(replace(fresh, training=replace(fresh.training, max_steps=1)), progress=False)
    assert not Path(fresh.out, "checkpoints", "lock").exists()


def test_a_lock_in_one_process(tmp_path):
    path = tmp_path / "lock"
    with locked(path) as first, locked(path) as second:
        assert (first, second) == ("", f"process {os.getpid()} on this machine")
    assert not path.exists()
    path.write_text("\xff gone")  # of a process that ended without taking it away
    with locked(path) as holder:
        assert holder == ""
    path.write_text(f"{2**40} a-name-that-is-longer-than-this-machine's-{'x' * 100}\n")
    with locked(path) as first, locked(path) as second:
        assert (first, second) == ("", f"process {os.getpid()} on this machine")


def test_a_file_that_changes_after_it_was_read(config, tmp_path, monkeypatch):
    """The run is one of the bytes that were read, so it cannot be resumed with others."""
    own = tmp_path / "pairs.tsv"
    own.write_bytes(Path(config.data.train[0]).read_bytes())
    run = preparing._prepare

    def grow(*arguments):
        read = run(*arguments)
        own.write_bytes(own.read_bytes() + b"a b\tb a\n")
        return read

    monkeypatch.setattr(preparing, "_prepare", grow)
    data = replace(config.data, train=(str(own),), cache=str(tmp_path / "cache"))
    fit(replace(config, data=data, out=str(tmp_path / "run")), progress=False)
    with pytest.raises(DataError, match=r"pairs.tsv has changed since the run began; put the old file back"):
        resume(tmp_path / "run", progress=False)


def test_a_file_that_changes_during_training_does_not_matter(config, whole, tmp_path, monkeypatch):
    own = tmp_path / "letters.tsv"
    own.write_bytes(Path(config.data.train[0]).read_bytes())
    inner = Validation.after_update
    monkeypatch.setattr(Validation, "after_update", lambda *arguments: (own.write_text("x\ty\n"), inner(*arguments))[1])
    fit(replace(config, data=replace(config.data, train=(str(own),)), out=str(tmp_path / "run")), progress=False)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_resume_says_which_versions_changed(ended, elsewhere, capfd, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "9.9")
    resume(ended)
    said = capfd.readouterr().err
    assert "results may differ from those of an uninterrupted run: torch was 2." in said
    assert " and is 9.9" in said


def test_resume_refuses_another_vocabulary(ended, monkeypatch):
    monkeypatch.setattr(sys.modules[resume.__module__], "_vocabulary", lambda task: "another")
    with pytest.raises(
        DataError, match="preparing its data again gave another vocabulary than at the start of the run, with tokenizers 0"
    ):
        resume(ended, progress=False)


@pytest.fixture
def small_memory(monkeypatch):
    """`small_memory(rows)`: a batch of more rows does not fit."""

    def arm(rows):
        inner = TrainableTranslator.loss

        def loss(self, batch, step, total_steps):
            if len(batch.index) > rows:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
            return inner(self, batch, step, total_steps)

        monkeypatch.setattr(TrainableTranslator, "loss", loss)

    return arm


def test_out_of_memory_cuts_batches(fresh, small_memory, capfd):
    small_memory(4)
    config = replace(fresh, training=replace(fresh.training, max_steps=8))
    fit(config)
    said = capfd.readouterr().err
    assert "not enough memory for the batch; from now on, each batch is split into 2 parts, which together give" in said
    assert "Lower training.batch_tokens to avoid this" in said
    state, _ = RunFolder(config.out).load_checkpoint()
    assert state["progress"]["parts"] >= 2
    assert state["progress"]["skipped"] == 0


def test_out_of_memory_for_one_example(fresh, small_memory):
    small_memory(0)
    with pytest.raises(TrainingError, match=r"there is not enough memory for a single example; lower training.batch_tokens"):
        fit(fresh, progress=False)


def test_pieces_hold_all_examples(config, whole):
    corpus = TranslationTraining().prepare(config, model=None, attention=None, start=None, progress=False).data.train
    batch = corpus.batch(range(7))
    pieces = split_batch(batch, 4)
    assert [len(piece.index) for piece in pieces] == [2, 2, 2, 1]
    for name, value in vars(batch).items():
        assert torch.equal(torch.cat([vars(piece)[name] for piece in pieces]), value)
    assert len(split_batch(corpus.batch([0, 1]), 8)) == 2


def test_a_loss_that_is_not_finite_is_skipped_and_counted(fresh, monkeypatch, capfd):
    inner = TrainableTranslator.loss

    def loss(self, batch, step, total_steps):
        total, nll = inner(self, batch, step, total_steps)
        return (total * float("nan"), nll * float("nan")) if step in (2, 4) else (total, nll)

    monkeypatch.setattr(TrainableTranslator, "loss", loss)
    fit(replace(fresh, training=replace(fresh.training, max_steps=6)))
    said = capfd.readouterr().err
    assert "up to update 2: 1 update skipped, because the loss or its gradient was not finite" in said
    assert "up to update 4: 2 updates skipped, because the loss or its gradient was not finite" in said
    state, _ = RunFolder(fresh.out).load_checkpoint()
    assert state["progress"]["skipped"] == 2
    assert all(value.isfinite().all() for value in state["model"].values())
    assert {int(entry["step"]) for entry in state["optimizer"]["state"].values()} == {4}
    assert all(row["train_nll"] < 100 for row in state["history"] if "train_nll" in row)


def test_too_many_skips_end_the_run(fresh, monkeypatch):
    inner = TrainableTranslator.loss
    monkeypatch.setattr(TrainableTranslator, "loss", lambda *a: tuple(part * float("inf") for part in inner(*a)))
    settings = replace(fresh.training, max_skipped=3, validate_every=50)
    with pytest.raises(
        TrainingError, match=r"at update 4 .* 4 times since the last validation; .* a lower training.learning_rate"
    ):
        fit(replace(fresh, training=settings), progress=False)


@pytest.mark.parametrize("change", [lambda path: os.truncate(path, 100), lambda path: os.utime(path, (0, 0))])
def test_prepared_data_that_change_in_use_are_refused(config, whole, tmp_path, change):
    """A file in memory that is cut short would end the process, without a word."""
    own = replace(config, data=replace(config.data, cache=str(tmp_path)))
    corpus = TranslationTraining().prepare(own, model=None, attention=None, start=None, progress=False).data.train
    corpus.batch([0])
    change(corpus.path)
    with pytest.raises(
        DataError, match=r"train.arrow: has changed while it was in use; do not change the cache, and resume the run"
    ):
        corpus.batch([0])
