"""The time of training is estimated from its first updates."""

from types import SimpleNamespace

import pytest
from tiny import TinyTranslator

from regard.training import fit, progress
from regard.training.progress import Reporter, SeveralRuns, describe_time
from regard.training.run import Progress


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
    assert f"training takes {words} on" in describe_time(run_of(), seconds)


def run_of(*, first=0, minutes=0.0, updates=1000):
    """A run, by default of 1,000 updates."""
    numbers = Progress(step=first)
    machine = SimpleNamespace(device=SimpleNamespace(type="cpu"), threads=2)
    config = SimpleNamespace(training=SimpleNamespace(max_minutes=minutes))
    task = SimpleNamespace(unit="words")
    return SimpleNamespace(
        progress=numbers, machine=machine, config=config, total_steps=updates, task=task, lap=lambda name: None
    )


class Noted(Reporter):
    """Keeps what is said."""

    def say(self, text):
        self.texts.append(text)

    def show(self, run, speed):
        self.speed = speed


def estimates(**settings):
    """What `report` prints."""
    return report(**settings).texts


def report(*, first=0, minutes=0.0, updates=1000):
    """A reporter with its texts and when they came; the first three updates take 9 seconds each, all others 2 seconds."""
    run, reporter = run_of(first=first, minutes=minutes, updates=updates), Noted()
    reporter.texts = []
    reporter.start(run)
    for update in range(1, 12):
        run.progress.step, run.progress.seconds = first + update, run.progress.seconds + (9.0 if update <= 3 else 2.0)
        reporter.after_update(run)
        reporter.texts += [update] * (len(reporter.texts) == 1)
    return reporter


@pytest.mark.parametrize("first", [0, 500])
def test_the_first_updates_do_not_count(first):
    texts = estimates(first=first)
    minutes = "34" if first == 0 else "17"
    text = f"training takes about {minutes} minutes on this machine (2 threads); validation takes a little more time"
    assert texts == [text, 6]


def test_a_limit_of_the_time_counts():
    reporter = report(minutes=5.0)
    assert "about 5 minutes" in reporter.texts[0]
    assert "4:17 left" in reporter.speed  # 43 of 300 seconds are over


def test_no_estimate_in_the_second_half_of_a_run():
    assert estimates(updates=16) == []
    assert "training takes" in estimates(updates=40)[0]


def test_a_run_that_is_over_at_once_has_no_estimate(config, change, capsys):
    fit(change(config, max_epochs=1), model=TinyTranslator)
    assert "training takes" not in capsys.readouterr().err


def test_several_runs_with_a_limit_of_the_time(monkeypatch):
    clock, said = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    times, run = SeveralRuns(said.append, 4), run_of(minutes=1.0)
    run.progress.step, run.progress.seconds, clock[0] = 10, 6.0, 6.0
    times.after_update(run)
    assert said == ["  all 4 models take about 4 minutes"]


def test_several_runs_say_the_time_of_all_and_then_the_time_left(monkeypatch):
    clock, said = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    times, run = SeveralRuns(said.append, 4, further=1.0, every=60.0), run_of()
    for _ in range(2):
        for run.progress.step in range(100, 1001, 100):
            clock[0] += 6.0
            times.after_update(run)
        times.end(run)
    assert said == [
        "  all 4 models and the training of the final model take about 5 minutes",
        "  model 2 of 4, 22% of the whole, 3:54 left",
    ]
