"""A small file of pairs, and runs on it that take a fraction of a second."""

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regard.config import DataConfig, TeacherForcingConfig
from regard.tasks.translation.config import TranslationConfig, TranslationTrainingConfig

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """300 sentences of letters, and each backwards."""
    draw, path = random.Random(0), tmp_path_factory.mktemp("data") / "letters.tsv"
    lines = {" ".join(draw.choices("abcdefgh", k=draw.randint(2, 7))) for _ in range(300)}
    path.write_text("".join(f"{line}\t{line[::-1]}\n" for line in sorted(lines)))
    return path


def make_config(pairs, out):
    """A run that uses what an exact resume must restore: a schedule, a moving average, mixed feeding, accumulation."""
    training = TranslationTrainingConfig(
        max_epochs=3,
        batch_tokens=120,
        accumulate=2,
        validation_pairs=8,
        teacher_forcing=TeacherForcingConfig(unit="token", start=1.0, end=0.5),
        ema_decay=0.9,
        precision="float32",
        tensorboard=False,
    )
    data = DataConfig(train=(str(pairs),), dev_size=30, cache=str(pairs.parent / "cache"))
    return TranslationConfig(data=data, training=training, out=str(out), threads=1)


@pytest.fixture
def config(pairs, tmp_path):
    """See `make_config`."""
    return make_config(pairs, tmp_path / "run")


@pytest.fixture(scope="session")
def trained(pairs, tmp_path_factory):
    """`trained(name, train)`: the folder of a run that `train` is called to make once, whose config it gets."""
    kept = {}

    def run(name, train):
        if name not in kept:
            out = tmp_path_factory.mktemp("trained") / name
            train(make_config(pairs, out))
            kept[name] = out
        return kept[name]

    return run


@pytest.fixture
def change():
    """`change(config, max_epochs=1)`: other settings of the training."""
    return lambda config, **settings: replace(config, training=replace(config.training, **settings))
