"""How long training takes is told before it starts, and telling it changes nothing."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import TinyTranslator

from regard.training import estimate, fit
from regard.training.optimizer import build_optimizer


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "less than a minute"),
        (60, "about 1 minute"),
        (750, "about 12 minutes"),
        (5399, "about 90 minutes"),
        (5400, "about 1.5 hours"),
        (200_000, "about 2.3 days"),
    ],
)
def test_words(seconds, words):
    assert estimate._spell(seconds) == words


def test_the_time_is_said_before_training(config, capsys):
    fit(config, model=TinyTranslator)
    said = capsys.readouterr().err
    assert "training takes less than a minute on this machine (1 thread)" in said
    assert said.index("training takes") < said.index("epoch 1")


def test_a_slow_model_is_expected_to_take_long(config, capsys, monkeypatch):
    monkeypatch.setattr(estimate, "_measure", lambda run: 7.0)
    fit(config, model=TinyTranslator)
    updates = int(Path(config.out, "logs", "metrics.csv").read_text().splitlines()[-1].split(",")[0])
    assert f"training takes {estimate._spell(7.0 * updates)}" in capsys.readouterr().err


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_time_of_the_optimizer_counts(config, change, monkeypatch, capsys, accumulate):
    """With a clock that only batches and steps of the optimizer move, the estimate is exact."""
    now = [0.0]

    def spend(seconds: float, call):
        def slow(*arguments, **settings):
            now[0] += seconds
            return call(*arguments, **settings)

        return slow

    def build(*arguments, **settings):
        optimizer = build_optimizer(*arguments, **settings)
        optimizer.step = spend(5.0, optimizer.step)
        return optimizer

    seen = []
    monkeypatch.setattr(estimate.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(estimate, "_ENOUGH", 1e9)
    monkeypatch.setattr(estimate, "to_device", spend(1.0, estimate.to_device))
    monkeypatch.setattr(estimate, "build_optimizer", build)
    measure = estimate._measure
    monkeypatch.setattr(estimate, "_measure", lambda run: seen.append(measure(run)) or seen[0])
    fit(change(config, max_epochs=1, accumulate=accumulate), model=TinyTranslator)
    assert seen == [accumulate * 1.0 + 5.0]


def test_measuring_changes_no_bit_of_the_result(config, change, monkeypatch):
    config = change(config, max_epochs=1)
    fit(config, model=TinyTranslator, progress=False)
    other = replace(config, out=f"{config.out}2")
    monkeypatch.setattr(sys.modules["regard.training.fit"], "describe_time", lambda run: "")
    fit(other, model=TinyTranslator, progress=False)
    assert Path(config.out, "model.safetensors").read_bytes() == Path(other.out, "model.safetensors").read_bytes()


def test_a_model_that_cannot_be_measured_trains_all_the_same(config, change, monkeypatch, capsys):
    def fail(run):
        raise TypeError("cannot be copied")

    monkeypatch.setattr(estimate, "_measure", fail)
    fit(change(config, max_epochs=1), model=TinyTranslator)
    assert "training takes" not in capsys.readouterr().err
