"""Two processes train one model as one process would, and end together."""

import os
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from several import run_several, torchrun
from tiny import TinyTranslator

from regard.config import TeacherForcingConfig
from regard.errors import ConfigError, Interrupted, TrainingError
from regard.machine import resolve_machine
from regard.processes.ranks import read_ranks
from regard.processes.team import disconnect
from regard.tasks.translation.config import TranslationConfig
from regard.training import fit, resume
from regard.training.callbacks import Validation
from regard.training.updater import Updater

still = partial(TinyTranslator, dropout=0.0)


def model_bytes(out):
    return Path(out, "model.safetensors").read_bytes()


def metrics(out):
    """The lines of the table, without the two columns of speed."""
    return [line.rsplit(",", 2)[0] for line in Path(out, "logs", "metrics.csv").read_text().splitlines()]


def values(outcomes):
    assert not any(outcome.trace for outcome in outcomes), "\n".join(outcome.trace for outcome in outcomes)
    return [outcome.value for outcome in outcomes]


@pytest.fixture
def gradients(monkeypatch):
    """Train without ever changing a weight; the gradients of all updates."""
    found = []

    def keep(self, step, count):
        found.append([None if p.grad is None else p.grad.clone() for p in self._run.model.parameters()])
        self._run.model.zero_grad()

    monkeypatch.setattr(Updater, "_step", keep)

    def run(config, name):
        found.clear()
        fit(replace(config, out=f"{config.out}-{name}"), model=still, progress=False)
        return list(found)

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("size", "accumulate", "tokens"), [(2, 1, 8), (2, 3, 60), (3, 2, 60)])
def test_gradient_is_that_of_one_process(config, change, gradients, size, accumulate, tokens):
    """Batches of one pair leave a process without a part; three batches in two processes are shared by rows."""
    forcing = TeacherForcingConfig(start=1.0, end=1.0)
    config = change(config, accumulate=accumulate, batch_tokens=tokens, max_steps=30, teacher_forcing=forcing, ema_decay=0.0)
    alone = gradients(config, "alone")
    shared = values(run_several(lambda rank: gradients(config, "shared"), size))
    assert len(alone) >= 8
    for one in shared:
        assert len(one) == len(alone)
        for ours, theirs in zip(one, alone, strict=True):
            for gradient, expected in zip(ours, theirs, strict=True):
                torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-6)


def test_all_processes_end_with_the_same_and_resume_to_the_bit(config, monkeypatch):
    """Dropout differs between processes and must come back; so must what was summed up for the log."""

    def train(out, rank):
        own = replace(config, out=out)
        translator = fit(own, model=TinyTranslator, progress=False)
        return translator.bundle.signature["scores"], [p.detach().clone() for p in translator.model.parameters()]

    whole, half = config.out + "-whole", config.out + "-half"
    (scores, weights), (other_scores, other_weights) = values(run_several(partial(train, whole)))
    assert scores == other_scores
    assert all(map(torch.equal, weights, other_weights))

    inner = Validation.after_update

    def stop(self, run):
        inner(self, run)
        if run.progress.step == 7 and not run.team.first:
            signal.raise_signal(signal.SIGTERM)  # to one of them only, after they agreed to go on

    with monkeypatch.context() as patch:
        patch.setattr(Validation, "after_update", stop)
        first, second = run_several(partial(train, half))
    assert isinstance(first.error, Interrupted), first.trace + second.trace
    assert str(first.error) == str(second.error)
    assert "stopped after update 8 of " in str(first.error)
    assert second.reported
    assert not first.reported
    values(run_several(lambda rank: resume(half, model=TinyTranslator, progress=False) and None))
    assert model_bytes(half) == model_bytes(whole)
    assert metrics(half) == metrics(whole)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads by Linux's /proc")
def test_no_thread_of_gloo_is_left_when_python_shuts_down(config):
    """One that lets go of a tensor then aborts the process: seen once in two runs on a busy machine."""

    def work(rank):
        fit(config, model=TinyTranslator, progress=False)
        names = [[path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]]
        disconnect()
        names.append([path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")])
        return [[name for name in some if "gloo" in name] for some in names]

    for before, after in values(run_several(work)):
        assert before
        assert not after


def test_one_process_goes_on_where_two_were_killed(config, change, capfd, monkeypatch):
    config = change(config, checkpoint_every=2)
    inner = Validation.after_update

    def die(self, run):
        inner(self, run)
        if run.progress.step == 5 and not run.team.first:
            os.kill(os.getpid(), signal.SIGKILL)

    begun = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(Validation, "after_update", die)
        first, second = run_several(lambda rank: fit(config, model=TinyTranslator, progress=False) and None)
    assert time.monotonic() - begun < 30
    assert second.code == -signal.SIGKILL
    assert isinstance(first.error, TrainingError), first.trace
    assert str(first.error).startswith("another process of the run has ended; ")
    capfd.readouterr()
    resume(config.out, model=TinyTranslator)
    said = capfd.readouterr().err
    assert "after update 4 of" in said
    assert "results may differ from those of an uninterrupted run: processes was 2 and is 1" in said


def test_processes_that_would_do_different_things_are_refused(config):
    outcomes = run_several(lambda rank: fit(replace(config, seed=rank), model=TinyTranslator, progress=False))
    assert all(isinstance(outcome.error, ConfigError) for outcome in outcomes)
    assert "the 2 processes differ: settings is" in str(outcomes[1].error)
    assert not Path(config.out).exists()


def test_processes_that_resolve_auto_differently_are_refused(config, monkeypatch):
    def train(rank):
        monkeypatch.setattr("regard.machine._resolve_precision", lambda *given: ("float32", "bfloat16")[rank])
        return fit(config, model=TinyTranslator, progress=False)

    outcomes = run_several(train)
    assert all(isinstance(outcome.error, ConfigError) for outcome in outcomes)
    assert "training.precision is 'bfloat16' in process 1, and 'float32' in process 0; set" in str(outcomes[1].error)


def test_a_mistake_is_told_once(config):
    Path(config.out).mkdir()
    Path(config.out, "diary").touch()
    first, second = run_several(lambda rank: fit(config, model=TinyTranslator, progress=False))
    assert str(first.error) == str(second.error)
    assert "holds files that are not a run's" in str(first.error)
    assert (first.reported, second.reported) == (False, True)


def test_srun_without_torchrun_is_refused(config, monkeypatch):
    for name, value in {"STEP_ID": "0", "NTASKS": "4", "JOB_NAME": "mine"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    with pytest.raises(ConfigError, match="srun has started 4 processes without torchrun; start one task on each node"):
        fit(config, model=TinyTranslator, progress=False)
    monkeypatch.setenv("SLURM_JOB_NAME", "bash")
    fit(replace(config, training=replace(config.training, max_steps=1)), model=TinyTranslator, progress=False)


def test_hosts_may_have_different_numbers_of_processes(config, change):
    def spread(rank, size, port):
        here = {"LOCAL_WORLD_SIZE": "1" if rank == 2 else "2", "LOCAL_RANK": str(rank % 2)}
        return torchrun(rank, size, port) | here

    def train(rank):
        return fit(change(config, max_steps=2), model=TinyTranslator, progress=False).bundle.signature["updates"]

    assert values(run_several(train, 3, launcher=spread)) == [2, 2, 2]


def test_a_process_that_sees_its_own_gpu_only(monkeypatch):
    """Its number among the GPUs that it sees isn't its number on the host."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **_: True)
    for name, value in torchrun(2, 4, 12910).items():
        monkeypatch.setenv(name, value)
    machine = resolve_machine(TranslationConfig(), read_ranks())
    assert (machine.device, machine.processes) == (torch.device("cuda:0"), 4)
