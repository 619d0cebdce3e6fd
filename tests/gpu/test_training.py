"""Training on a GPU: the small presets, without waiting for the GPU in an update, and with an exact resume."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gpu.presets import CLASSIFICATION, TRANSLATION, config_of
from training.test_synchronisation import KINDS

import regard
from regard.attention.fast import fla
from regard.attention.heads import gated_delta, linear
from regard.config.loading import read_config
from regard.errors import TrainingError
from regard.training import recorded, resume, updater
from regard.training.callbacks import Validation
from regard.training.updater import Updater

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
pytestmark = pytest.mark.gpu


@pytest.fixture
def no_waiting(monkeypatch):
    """Make each wait for the GPU in an update an error, except in the first ones and while a graph is recorded."""
    inner = {name: getattr(Updater, name) for name in ("_add_gradients", "_step")}
    record = recorded.Recorder.__call__

    def unguarded(self, rehearse, function):
        mode = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("default")
        replay = record(self, rehearse, function)
        torch.cuda.set_sync_debug_mode(mode)
        return replay

    monkeypatch.setattr(recorded.Recorder, "__call__", unguarded)

    def guard(name):
        def run(self, *arguments):
            if self._run.progress.step < 2:
                return inner[name](self, *arguments)
            torch.cuda.set_sync_debug_mode("error")
            try:
                return inner[name](self, *arguments)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        return run

    for name in inner:
        monkeypatch.setattr(Updater, name, guard(name))


@pytest.mark.parametrize("graphs", [True, False], ids=["recorded", "started one by one"])
@pytest.mark.parametrize("preset", [*TRANSLATION, *CLASSIFICATION, "language-tiny"])
def test_a_preset_trains_without_waiting_for_the_gpu(preset, graphs, files, tmp_path, request):
    if preset != "hierarchical":  # which waits for the number and the length of sentences
        request.getfixturevalue("no_waiting")
    torch.cuda.reset_peak_memory_stats()
    run = regard.fit(config_of(preset, files, tmp_path, **{"training.cuda_graphs": graphs}), progress=False)
    assert torch.cuda.max_memory_allocated() > 0
    assert all(weight.isfinite().all() for weight in run.model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_each_attention_kind_trains(kind, files, tmp_path):
    own = {"model.decoder.attention": {"kind": kind}, "model.encoder.hidden_size": 128}  # queries and keys of one width
    own |= {"training.max_steps": 4, "training.validation_pairs": 4}
    run = regard.fit(config_of("luong", files, tmp_path, **own), progress=False)
    assert all(weight.isfinite().all() for weight in run.model.parameters())


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("preset", ["luong", "transformer-tiny"])
def test_number_formats(preset, precision, files, tmp_path, no_waiting):
    regard.fit(config_of(preset, files, tmp_path, **{"training.precision": precision}), progress=False)


class Stop(Exception):
    """The power fails."""


@pytest.mark.parametrize("graphs", [True, False], ids=["recorded", "started one by one"])
@pytest.mark.parametrize("preset", ["luong", "transformer-tiny", "bilstm", "hierarchical", "language-tiny", "tutorial-gru"])
def test_a_resumed_run_ends_with_the_same_bytes(preset, graphs, files, tmp_path, monkeypatch):
    config = config_of(preset, files, tmp_path, **{"training.checkpoint_every": 3, "training.cuda_graphs": graphs})
    whole = replace(config, out=config.out + "-whole")
    regard.fit(whole, progress=False)
    inner = Validation.after_update

    def fail(self, run):
        if run.progress.step == 5:
            raise Stop
        inner(self, run)

    with monkeypatch.context() as patch:
        patch.setattr(Validation, "after_update", fail)
        with pytest.raises(Stop):
            regard.fit(config, progress=False)
    resume(config.out, progress=False)
    assert Path(config.out, "model.safetensors").read_bytes() == Path(whole.out, "model.safetensors").read_bytes()


@pytest.mark.parametrize("preset", ["luong", "transformer-tiny", "tutorial-luong-concat"])
def test_the_first_losses_equal_those_of_a_cpu(preset, files, tmp_path):
    """In float32 without dropout; updates on the GPU are recorded."""
    losses = []
    for device in ("cpu", "cuda"):
        exact = dict.fromkeys(dropouts(preset), 0.0) | {"training.precision": "float32", "training.max_steps": 4}
        config = config_of(preset, files, tmp_path / f"on-{device}-", **exact)
        config = replace(config, device=device)
        regard.fit(config, progress=False)
        rows = Path(config.out, "logs", "metrics.csv").read_text().splitlines()
        names = rows[0].split(",")
        losses.append([float(row.split(",")[names.index("train_nll")]) for row in rows[1:]])
    torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=2e-3, atol=2e-3)


def dropouts(preset):
    if preset == "transformer-tiny":
        return ["model.embedding_dropout", "model.layer_dropout"]
    if preset == "luong":
        names = ["encoder.embedding_dropout", "encoder.output_dropout", "decoder.embedding_dropout", "decoder.readout_dropout"]
        return [f"model.{name}" for name in names]
    return ["model.encoder.embedding_dropout", "model.decoder.embedding_dropout"]


def test_distillation(files, tmp_path):
    teacher = regard.fit(config_of("transformer-tiny", files, tmp_path / "teacher"), progress=False)
    assert teacher is not None
    taught = {"distillation.teachers": [str(tmp_path / "teacher" / "run")]}
    regard.fit(config_of("transformer-tiny", files, tmp_path / "student", **taught), progress=False)
    assert read_config(tmp_path / "student" / "run" / "config.yaml").distillation.teachers


def test_an_operation_that_waits_cannot_be_recorded_and_spoils_nothing():
    x, total = torch.ones(1000, device="cuda"), torch.zeros((), device="cuda")
    recorder, state = recorded.Recorder(), torch.cuda.get_rng_state()
    with pytest.raises(TrainingError, match="cannot be recorded as CUDA graphs"):
        recorder(lambda: x.sum(), lambda: x.sum().item())
    assert torch.equal(torch.cuda.get_rng_state(), state)

    def add():
        total.add_(torch.nn.functional.dropout(x, 0.5).sum())

    replay = recorded.Recorder()(add, add)
    total.zero_()
    found = []
    for _ in range(2):
        torch.cuda.manual_seed(1)
        replay()
        found.append(float(total))
        total.zero_()
    assert found[0] == found[1] > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"training.consistency.kind": "r_drop"},
        {"training.consistency.kind": "sim_cut"},
        {"training.bpe_dropout": 0.1},
        {"training.recompute_layers": True},
        {"training.compile_layers": True},
    ],
    ids=lambda changes: next(iter(changes)).rpartition(".")[2] + f"-{next(iter(changes.values()))}",
)
def test_settings_of_training(changes, files, tmp_path):
    run = regard.fit(config_of("transformer-tiny", files, tmp_path, **changes), progress=False)
    assert all(weight.isfinite().all() for weight in run.model.parameters())


@pytest.mark.parametrize("graphs", [True, False], ids=["recorded", "started one by one"])
def test_weights_that_are_converted_together_give_the_same_bytes(graphs, files, tmp_path, monkeypatch):
    found = []
    for together in (True, False):
        if not together:
            monkeypatch.setattr(updater, "can_cast_once", lambda run: False)
        config = config_of("transformer-tiny", files, tmp_path / str(together), **{"training.cuda_graphs": graphs})
        regard.fit(config, progress=False)
        found.append(Path(config.out, "model.safetensors").read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["linear", "gated_delta"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_kernels_of_fla_agree_with_ours(name, dtype):
    pytest.importorskip("fla")
    plain = {"linear": linear.scan_chunks, "gated_delta": gated_delta.scan_chunks}[name]
    assert fla._agrees(name, plain, dtype, torch.device("cuda", 0))


NOTEBOOK = """
import sys, warnings
import torch
x = torch.ones(64, 64, device="cuda")
x @ x  # PyTorch reads CUBLAS_WORKSPACE_CONFIG here
import regard
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    regard.fit(regard.load_preset("transformer-tiny", {settings}), progress=False)
print(sum("restart the notebook" in str(one.message) for one in found))
"""


def test_a_process_that_has_used_the_gpu_trains_with_one_warning(files, tmp_path):
    settings = {
        "data.train": [str(files / "pairs.tsv")],
        "data.cache": str(files / "cache"),
        "out": str(tmp_path / "run"),
        "device": "cuda",
        "tokenizers.source.size": 200,
        "tokenizers.target.size": 200,
        "training.max_steps": 3,
        "training.tensorboard": False,
    }
    environment = {name: value for name, value in os.environ.items() if name != "CUBLAS_WORKSPACE_CONFIG"}
    code = NOTEBOOK.replace("{settings}", repr(settings))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "1"
