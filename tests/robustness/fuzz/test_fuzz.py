"""A short pass of `make fuzz`: every kept input, and some new ones, through every target."""

import time
from pathlib import Path

import pytest
from fuzz.engine import Target, feed, mutate
from fuzz.run import corpus_of
from fuzz.targets import SLOW, find_target, target_names

from regard.errors import DataError

INPUTS = 10
SECONDS = 0.1
"""At most, for the new inputs of one target."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in target_names()]
)
def test_results_or_refusals(name, tmp_path):
    target, corpus = find_target(name), corpus_of(name)
    inputs = len(corpus) + len(target.seeds()) + INPUTS
    outcome = feed(target, corpus, tmp_path, inputs=inputs, seed=1, until=time.monotonic() + SECONDS)
    assert not outcome.failures
    assert outcome.results + outcome.refusals.total() == outcome.inputs
    assert outcome.results, "every target has inputs that are read"


def fuzz(run, tmp_path: Path, *, inputs: int = 300):
    return feed(Target("test", lambda folder: run, lambda: [b"seed"], [b"key"]), [], tmp_path, inputs=inputs, seed=3)


def test_another_exception_is_a_failure(tmp_path):
    def run(data: bytes) -> None:
        if b"key" in data:
            raise KeyError("key")
        raise DataError("refused")

    outcome = fuzz(run, tmp_path)
    [(what, data)] = outcome.failures.values()
    assert "KeyError" in what
    assert b"key" in data
    assert outcome.refusals["DataError"] + outcome.times_failed == outcome.inputs == 300


def test_a_message_that_nobody_can_read_is_a_failure(tmp_path):
    def run(data: bytes) -> None:
        raise DataError("")

    assert "a message of 0 characters" in next(iter(fuzz(run, tmp_path).failures.values()))[0]


def test_inputs_that_reach_new_lines_are_kept_and_changed_further(tmp_path):
    from regard.pharaoh import parse_pharaoh

    outcome = fuzz(lambda data: parse_pharaoh(data.decode("latin1")), tmp_path, inputs=5000)
    assert outcome.refusals["DataError"]
    assert outcome.results
    assert outcome.found


def test_the_same_seed_gives_the_same_inputs():
    from random import Random

    first, again = ([mutate(generator, [b"abc", b"xyz"], [b"!"]) for _ in range(50)] for generator in (Random(1), Random(1)))
    assert first == again
    assert len(set(first)) > 30
