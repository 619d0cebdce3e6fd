"""Runs that are trained longer, or otherwise, than they were begun."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import TinyTranslator
from training.conftest import make_config
from training.test_resume import Stop, model_bytes, signal_at, stop_at  # noqa: F401 (fixtures)

from regard import disk
from regard.config import LinearDecayConfig
from regard.config.loading import read_config
from regard.errors import BundleError, ConfigError, Interrupted
from regard.training import fit, resume
from regard.training.folder import RunFolder


def progress_of(config):
    state = torch.load(Path(config.out, "checkpoints", "last.ckpt"), weights_only=True)
    return state["progress"], state["history"]


@pytest.fixture
def ended(trained, change, tmp_path):
    """A run that has ended, with a rate that has fallen to zero."""

    def settings(config):
        schedule = LinearDecayConfig(warmup_steps=4)
        return change(config, max_epochs=2, schedule=schedule, average_last=1, validation_pairs=0, monitor="loss")

    folder = trained("ended", lambda config: fit(settings(config), model=TinyTranslator, progress=False))
    config = settings(make_config(Path(read_config(folder / "config.yaml").data.train[0]), tmp_path / "ended"))
    shutil.copytree(folder, config.out)
    return config


def longer(config, progress=False, **overrides):
    overrides = {f"training.{name}": value for name, value in overrides.items()}
    return resume(config.out, overrides=overrides, model=TinyTranslator, progress=progress)


def test_a_run_that_has_ended_is_trained_longer(ended, capfd):
    before, weights = progress_of(ended), model_bytes(ended)
    assert before[0]["finished"]
    longer(ended, progress=True, max_epochs=4)
    after, history = progress_of(ended)
    assert (after["epoch"], after["step"]) == (4, 2 * before[0]["step"])
    assert model_bytes(ended) != weights
    kept, _ = RunFolder(ended.out).read_start()
    assert kept.training == replace(ended.training, max_epochs=4)
    said = capfd.readouterr().err
    assert "settings changed: training.max_epochs 2 → 4" in said
    assert history[-1]["learning_rate"] < history[-2]["learning_rate"]


def test_plain_resume_goes_on_bit_for_bit_after_a_change(ended, stop_at):  # noqa: F811
    """Killed at the first update under new settings, and later, it ends as one that was not."""
    folder = Path(ended.out)
    twin = Path(shutil.copytree(folder, ended.out + "-twin"))
    longer(replace(ended, out=str(twin)), max_epochs=4)
    for step in (progress_of(ended)[0]["step"] + 1, progress_of(ended)[0]["step"] + 9):
        disarm = stop_at(step)
        with pytest.raises(Stop):
            longer(ended, max_epochs=4)
        disarm()
    resume(ended.out, model=TinyTranslator, progress=False)
    assert model_bytes(ended) == (twin / "model.safetensors").read_bytes()


def test_a_kill_before_the_change_is_written_leaves_the_old_settings(ended, monkeypatch):
    weights, write = model_bytes(ended), disk.write

    def die(path, *parts):
        if path.name == "run.json":
            raise Stop
        write(path, *parts)

    monkeypatch.setattr("regard.disk.write", die)
    with pytest.raises(Stop):
        longer(ended, max_epochs=4)
    monkeypatch.undo()
    config, _ = RunFolder(ended.out).read_start()
    assert config.training.max_epochs == 2
    resume(ended.out, model=TinyTranslator, progress=False)
    assert model_bytes(ended) == weights
    assert progress_of(ended)[0]["epoch"] == 2
    longer(ended, max_epochs=3)
    assert progress_of(ended)[0]["epoch"] == 3


def test_settings_edited_by_hand_are_refused(ended):
    longer(ended, max_epochs=3)
    path = Path(ended.out, "checkpoints", "run.json")
    path.write_text(path.read_text().replace('"max_epochs": 3', '"max_epochs": 9'))
    with pytest.raises(BundleError, match=r"run.json is damaged, was edited, .* does not match its checksum"):
        longer(ended)


def test_an_interrupted_run_gets_another_rate(config, signal_at):  # noqa: F811
    signal_at(7)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    signal_at(10_000)
    longer(config, learning_rate=1e-5)
    assert [row["learning_rate"] for row in progress_of(config)[1]][-1] == 1e-5


@pytest.mark.parametrize("decay", [0.01, 0.0])
def test_another_weight_decay_has_an_effect(ended, decay):
    longer(ended, max_epochs=3, weight_decay=0.02)
    longer(ended, max_epochs=4, weight_decay=decay)
    state = torch.load(Path(ended.out, "checkpoints", "last.ckpt"), weights_only=True)
    assert [group["weight_decay"] for group in state["optimizer"]["param_groups"]] == [decay, 0.0]  # matrices, vectors


def test_decoding_of_an_ended_run_changes_without_training(ended):
    weights, step = model_bytes(ended), progress_of(ended)[0]["step"]
    model = resume(ended.out, overrides={"decoding.beam_size": 2}, model=TinyTranslator, progress=False)
    assert model.config.decoding.beam_size == 2
    assert (model_bytes(ended), progress_of(ended)[0]["step"]) == (weights, step)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"data.max_tokens": 3}, r"cannot resume '.*' with another data.max_tokens: a run keeps its data, .* --from "),
        ({"training.batch_tokens": 99}, "with another training.batch_tokens"),
        ({"training.optimizer": "muon"}, "with another training.optimizer"),
        ({"model.encoder.hidden_size": 8}, "with another model.encoder.hidden_size"),
        ({"tokenizers.source.kind": "bpe"}, "with another tokenizers.source.kind"),
        ({"seed": 5}, "with another seed"),
        (
            {"training.max_epochs": 3, "training.compile_layers": True},
            "training.compile_layers and training.recompute_layers are for layers of Transformers, and TinyTranslator has none",
        ),
        (
            {"training.max_epochs": 3, "training.consistency.kind": "sim_cut"},
            "TinyTranslator has no nn.Embedding with padding",
        ),
        ({"training.epochs": 5}, r"unknown setting 'training.epochs'; did you mean 'training.max_epochs'\?"),
        (
            {"training.max_epochs": 1},
            r"cannot train longer in '.*': 2 epochs and \d+ updates are done, .* training.max_epochs 1; ",
        ),
        ({"training.learning_rate": 1e-4}, r"so the run would end at once because of training.max_epochs 2; set higher limits"),
    ],
)
def test_what_may_not_change(ended, overrides, message):
    before = Path(ended.out, "checkpoints", "run.json").read_bytes()
    with pytest.raises(ConfigError, match=message):
        resume(ended.out, overrides=overrides, model=TinyTranslator, progress=False)
    assert Path(ended.out, "checkpoints", "run.json").read_bytes() == before


def test_changed_settings_are_checked_as_at_the_start(config, change, signal_at):  # noqa: F811
    config = change(config, monitor="bleu")
    signal_at(3)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False)
    before = Path(config.out, "checkpoints", "run.json").read_bytes()
    with pytest.raises(ConfigError, match=r"training.monitor is 'bleu', but training.validation_pairs is 0"):
        longer(config, validation_pairs=0)
    assert Path(config.out, "checkpoints", "run.json").read_bytes() == before


def test_patience_holds_until_it_is_raised(config, change):
    config = change(config, max_epochs=50, patience=1, monitor="loss", learning_rate=20.0, clip_norm=0.0)
    fit(config, model=TinyTranslator, progress=False)
    done = progress_of(config)[0]["epoch"]
    assert done < 50
    with pytest.raises(ConfigError, match=r"so the run would end at once because of training.patience 1"):
        longer(config, max_epochs=60)
    longer(config, max_epochs=done + 1, patience=9)
    assert progress_of(config)[0]["epoch"] == done + 1
