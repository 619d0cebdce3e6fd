"""Training in float16: the loss scale against a plain loop, and runs in which gradients overflow."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import TinyTranslator

from regard.errors import BundleError, TrainingError
from regard.training import fit, loss_scale, resume
from regard.training.loss_scale import INITIAL, LARGEST, LossScale
from regard.training.run import Run

CPU = torch.device("cpu")


@pytest.mark.parametrize("seed", range(3))
def test_the_factor_follows_the_rule(seed, monkeypatch):
    monkeypatch.setattr(loss_scale, "GROWS_AFTER", 4)
    draw, scale = random.Random(seed), LossScale(CPU)
    factor, sound = INITIAL, 0
    for _ in range(300):
        overflow = draw.random() < (0.7 if draw.random() < 0.3 else 0.1)
        hopeless = bool(scale.update(torch.tensor(overflow)))
        assert hopeless == (overflow and factor <= 1)
        sound = 0 if overflow else sound + 1
        if overflow:
            factor = max(factor / 2, 1)
        elif sound == 4:
            factor, sound = min(factor * 2, LARGEST), 0
        assert float(scale.factor) == factor
        assert math.frexp(factor)[0] == 0.5  # a power of two
    copy = LossScale(CPU)
    copy.load_state_dict(scale.state_dict())
    assert copy.state_dict() == scale.state_dict()


def weights(config, change, **settings):
    config = change(config, **settings)
    fit(config, model=TinyTranslator, progress=False)
    return torch.load(Path(config.out, "checkpoints", "last.ckpt"), weights_only=True)


def test_float16_trains_like_float32(config, change, tmp_path):
    exact = weights(config, change)
    half = weights(replace(config, out=str(tmp_path / "half")), change, precision="float16")
    assert half["loss_scale"]["factor"] == INITIAL
    for name, value in exact["model"].items():
        torch.testing.assert_close(half["model"][name], value, rtol=0.05, atol=0.02)
    assert exact["loss_scale"] == {}


@pytest.mark.parametrize("initial", [2.0**100, 2.0**40])
def test_updates_that_overflow_are_skipped_and_not_counted(initial, config, change, monkeypatch):
    monkeypatch.setattr(loss_scale, "INITIAL", initial)
    monkeypatch.setattr(loss_scale, "LARGEST", math.inf)
    state = weights(config, change, precision="float16", max_epochs=4, max_skipped=1)
    assert 1 <= float(state["loss_scale"]["factor"]) < initial
    assert state["progress"]["skipped"] == 0


def test_a_loss_that_is_never_finite_still_ends_the_run(config, change, monkeypatch):
    monkeypatch.setattr(loss_scale, "INITIAL", 2.0)
    config = change(config, precision="float16", learning_rate=1e9, max_skipped=2, clip_norm=0.0)
    with pytest.raises(TrainingError, match=r"not finite.*training.precision float32 \(now float16\)"):
        fit(config, model=TinyTranslator, progress=False)


@pytest.mark.parametrize("damage", ["x", [1], {"factor": 1}], ids=repr)
def test_a_damaged_scale_is_refused_on_resume(damage, config, change, monkeypatch):
    whole = Run.state_dict
    monkeypatch.setattr(Run, "state_dict", lambda run: {**whole(run), **({"loss_scale": damage} if run.progress.step else {})})
    config = change(config, precision="float16", max_epochs=1)
    fit(config, model=TinyTranslator, progress=False)
    with pytest.raises(BundleError, match="its checkpoint belongs to another model"):
        resume(config.out, model=TinyTranslator, progress=False)
