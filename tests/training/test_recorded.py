"""Updates that a GPU records and replays, with a stand-in for the recorder that runs the same functions on a CPU."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.attention import Additive
from regard.config import AutoConfig, TeacherForcingConfig, TokenizersConfig
from regard.machine import strictly_deterministic
from regard.models.build import build_translator
from regard.tasks.objective import objective
from regard.tasks.translation.train import TranslationTraining
from regard.text.batching import Batch
from regard.text.corpora import as_batch
from regard.text.symbols import PAD
from regard.training import fit, recorded, updater


class NoRecorder:
    """Runs the function itself in place of a recording."""

    made = 0

    def __call__(self, rehearse, function):
        NoRecorder.made += 1
        rehearse()
        return function


@pytest.fixture
def record_on_a_cpu(monkeypatch):
    NoRecorder.made = 0
    monkeypatch.setattr(recorded, "Recorder", NoRecorder)
    monkeypatch.setattr(updater, "can_record", lambda run: run.task.is_repeatable())


def batch_of(rows=5, source=7, target=6, words=30):
    generator = torch.Generator().manual_seed(0)
    source_ids, target_ids = (torch.randint(4, words, (rows, n), generator=generator) for n in (source, target))
    source_mask, target_mask = (
        torch.arange(n) < torch.randint(1, n + 1, (rows, 1), generator=generator) for n in (source, target)
    )
    source_ids, target_ids = source_ids * source_mask, target_ids * target_mask
    return Batch(source_ids, source_mask, target_ids, target_ids, target_mask, torch.arange(rows))


SMALL = {"model.embedding_size": 8, "model.encoder.hidden_size": 8, "model.decoder.hidden_size": 8}
PRESETS = {"luong": SMALL, "bahdanau": SMALL, "transformer-tiny": {"model.hidden_size": 8, "model.feed_forward_size": 8}}


@pytest.mark.parametrize("preset", PRESETS)
def test_padding_changes_neither_loss_nor_gradients(preset):
    torch.manual_seed(0)
    config = regard.load_preset(preset, {"data.train": ["pairs.tsv"], **PRESETS[preset]})
    model, batch = build_translator(config.model, source_size=30, target_size=30).double().eval(), batch_of()
    padded = batch.padded()
    assert padded.source.shape == (8, 8)
    assert padded.target_out.shape == (8, 8)
    found = [objective(model, one, label_smoothing=0.1) for one in (batch, padded)]
    for plain, more in zip(*found, strict=True):
        torch.testing.assert_close(more, plain)
    one, other = (torch.autograd.grad(loss, list(model.parameters()), allow_unused=True) for loss, _ in found)
    for plain, more in zip(one, other, strict=True):
        assert (plain is None) == (more is None)
        if plain is not None:
            torch.testing.assert_close(more, plain)


def test_a_batch_of_the_right_size_is_not_padded():
    batch = batch_of(rows=16, source=8, target=4)
    for name, tensor in vars(batch.padded()).items():
        assert torch.equal(tensor, getattr(batch, name))


def test_the_grid_is_coarse_and_small_batches_stay_small():
    batch = batch_of(rows=3, source=3, target=70)
    padded = batch.padded()
    assert (padded.source.shape, padded.target_in.shape) == ((4, 4), (4, 80))
    assert (padded.target_out[3] == PAD).all()
    assert padded.index.tolist() == [0, 1, 2, 0]
    sizes = {len(batch_of(rows=rows, source=1, target=1).padded()) for rows in range(1, 257)}
    assert len(sizes) <= 18
    assert all(len(batch_of(rows=n, source=1, target=1).padded()) >= n for n in range(1, 100))


def test_texts_of_a_language_model():
    flat = np.arange(4, 20, dtype=np.int64)
    padded = as_batch(flat, np.array([0, 5]), np.array([5, 3]), np.array([7, 8])).padded()
    assert padded.target_in.shape == (2, 8)
    assert padded.source_mask[:, 0].all()
    assert padded.index.tolist() == [7, 8]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"accumulate": 3}, marks=pytest.mark.slow),
        {"accumulate": 3, "optimizer": "muon"},
    ],
)
def test_a_recorded_run_ends_as_one_that_is_not(pairs, tmp_path, settings, record_on_a_cpu, monkeypatch):
    def run(name):
        config = regard.load_preset(
            "transformer-tiny",
            {
                **PRESETS["transformer-tiny"],
                **{f"training.{name}": value for name, value in settings.items()},
                "data.train": [str(pairs)],
                "data.cache": str(tmp_path / "cache"),
                "tokenizers.source.size": 40,
                "tokenizers.target.size": 40,
                "model.embedding_dropout": 0.0,
                "model.layer_dropout": 0.0,
                "training.max_steps": 6,
                "training.batch_tokens": 200,
                "training.precision": "float32",
                "training.tensorboard": False,
                "training.validate_every": 3,
                "threads": 1,
                "out": str(tmp_path / name),
            },
        )
        fit(config, progress=False)
        return load_file(Path(config.out, "model.safetensors"))

    found = run("recorded")
    assert NoRecorder.made > 1
    monkeypatch.setattr(updater, "can_record", lambda run: False)
    for name, weight in run("plain").items():
        torch.testing.assert_close(found[name], weight, rtol=1e-3, atol=1e-4, msg=name)


def test_too_many_graphs_delete_the_one_not_used_for_the_longest_time(monkeypatch, record_on_a_cpu):
    monkeypatch.setattr(recorded, "MOST", 2)
    weight = torch.nn.Parameter(torch.ones(()))
    gradients = recorded.RecordedGradients([weight], lambda batch: (weight * batch.target_mask.sum(),) * 2, torch.zeros(()))
    lengths = (3, 6, 3, 12, 3, 6)
    for length in lengths:
        gradients.add(batch_of(target=length), 0.5)
    assert float(weight.grad) == sum(0.5 * float(batch_of(target=length).target_mask.sum()) for length in lengths)
    assert NoRecorder.made == 4  # only 6 was deleted and recorded again
    gradients.zero()
    assert float(weight.grad) == 0
    assert gradients.clear()
    assert not gradients.clear()


def test_too_little_memory_splits_a_recorded_batch(config, change, monkeypatch, record_on_a_cpu, capfd):
    config = change(config, max_steps=3, accumulate=1, teacher_forcing=TeacherForcingConfig())
    most = []

    def make(self, batch):
        most.append(len(batch))
        if len(batch) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(self, batch)

    inner = recorded.RecordedGradients._make
    monkeypatch.setattr(recorded.RecordedGradients, "_make", make)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    fit(config)
    assert max(most) > 8
    assert most[-1] <= 8
    assert "each batch is split into" in capfd.readouterr().err


def test_which_runs_can_be_recorded(pairs, tmp_path):
    tokenizers = TokenizersConfig(source=AutoConfig(), target=AutoConfig())

    def repeatable(**settings):
        given = {"data.train": [str(pairs)], "data.cache": str(tmp_path / "cache"), **SMALL, **settings}
        config = replace(regard.load_preset("luong", given), tokenizers=tokenizers)
        return TranslationTraining().prepare(config, model=None, attention=None, start=None, progress=False).is_repeatable()

    assert repeatable()
    assert not repeatable(**{"training.teacher_forcing.end": 0.5})
    assert not repeatable(**{"model.decoder.attention": {"kind": "coverage"}})


def test_code_of_others_is_not_recorded():
    """A graph would repeat what it keeps in Python."""

    class Counting(Additive):
        calls = 0

    def can_record(model, custom=""):
        ranks, task = SimpleNamespace(alone=True), SimpleNamespace(custom=custom, is_repeatable=lambda: True)
        machine, config = SimpleNamespace(device=torch.device("cuda")), regard.load_preset("luong", {"data.train": ["a"]})
        return recorded.can_record(
            SimpleNamespace(config=config, machine=machine, model=model, team=SimpleNamespace(ranks=ranks), task=task)
        )

    assert can_record(Additive(4))
    assert not can_record(torch.nn.Sequential(Counting(4)))
    assert not can_record(Additive(4), custom="attention")


def test_an_operation_without_a_deterministic_form_is_allowed_after_a_message(config, monkeypatch, capfd):
    """A stand-in for a GPU, where PyTorch raises this error for some operations in strict mode."""
    config = replace(config, training=replace(config.training, max_steps=4))
    initialise, forward = updater.Updater.__init__, updater._Loss.forward

    def strict(self, run):
        initialise(self, run)
        self._strictly = strictly_deterministic

    def raise_if_strict(self, *arguments, **options):
        if torch.get_deterministic_debug_mode() == 2:
            raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation, but you set …")
        return forward(self, *arguments, **options)

    monkeypatch.setattr(updater.Updater, "__init__", strict)
    monkeypatch.setattr(updater._Loss, "forward", raise_if_strict)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        fit(config)
    finally:
        torch.use_deterministic_algorithms(False)
    assert capfd.readouterr().err.count("cumsum_cuda_kernel has no deterministic form on a GPU") == 1
