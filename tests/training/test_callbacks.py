"""Callbacks of the user's own."""

import math
import signal
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from tiny import TinyTranslator
from training.test_resume import signal_at  # noqa: F401 (fixture)

from regard.errors import ConfigError, Interrupted
from regard.tasks.translation.train import TranslationScores
from regard.training import Callback, fit, resume
from regard.training.folder import RunFolder
from regard.training.progress import Reporter


class Counter(Callback):
    """Counts the updates of the whole run, also of its part before a resume, and notes what happens."""

    def __init__(self, most=math.inf):
        self.updates, self.most, self.seen = 0, most, []

    def start(self, run):
        self.seen.append("start")

    def after_update(self, run):
        self.updates += 1
        if self.updates >= self.most:
            run.stop()

    def after_validation(self, run, scores):
        self.seen.append(sorted(scores)[:1])
        assert run.history[-1]["step"] == run.progress.step

    def end(self, run):
        self.seen.append("end")

    def state_dict(self):
        return {"updates": self.updates}

    def load_state_dict(self, state):
        self.updates = state["updates"]


def progress_of(config):
    return RunFolder(config.out).load_checkpoint()[0]["progress"]


def test_a_callback_sees_the_run(config, change):
    counter = Counter()
    fit(change(config, max_epochs=2), model=TinyTranslator, callbacks=[counter], progress=False)
    assert counter.updates == progress_of(config)["step"]
    assert counter.seen == ["start", ["bleu"], ["bleu"], "end"]


def test_a_callback_ends_the_run(config, capfd):
    fit(config, model=TinyTranslator, callbacks=[Counter(most=3)])
    progress = progress_of(config)
    assert (progress["step"], progress["finished"], progress["validations"]) == (4, True, 1)
    assert "ended because of a callback" in capfd.readouterr().err


def test_its_state_is_restored(config, change, signal_at):  # noqa: F811
    config = change(config, max_epochs=1)
    signal_at(5)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, callbacks=[Counter()], progress=False)
    signal_at(10_000)
    with pytest.raises(ConfigError, match=r"with 0 callbacks, because its checkpoint has the state of 1; give the same"):
        resume(config.out, model=TinyTranslator, progress=False)
    counter = Counter()
    resume(config.out, model=TinyTranslator, callbacks=[counter], progress=False)
    assert counter.updates == progress_of(config)["step"] > 5
    assert Path(config.out, "model.safetensors").exists()


def test_it_starts_before_an_interrupted_validation_is_repeated(config, change, monkeypatch):
    monkeypatch.setattr(Reporter, "validating", lambda self, total: nullcontext(lambda: signal.raise_signal(signal.SIGTERM)))
    config = change(config, max_epochs=1)
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, callbacks=[Counter()], progress=False)
    monkeypatch.setattr(Reporter, "validating", lambda self, total: nullcontext(lambda: None))
    counter = Counter()
    resume(config.out, model=TinyTranslator, callbacks=[counter], progress=False)
    assert counter.seen == ["start", ["bleu"], "end"]


def test_its_state_and_the_scores_may_have_numbers_of_numpy(config, change, monkeypatch):
    inner = TranslationScores.to_dict
    monkeypatch.setattr(TranslationScores, "to_dict", lambda scores: {**inner(scores), "bleu": np.float64(scores.bleu)})
    monkeypatch.setattr(Counter, "state_dict", lambda counter: {"updates": np.int64(counter.updates)})
    fit(change(config, max_epochs=1), model=TinyTranslator, callbacks=[Counter()], progress=False)
    counter = Counter()
    resume(config.out, model=TinyTranslator, callbacks=[counter], progress=False)
    assert counter.updates == progress_of(config)["step"]
