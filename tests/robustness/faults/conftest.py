"""A run that takes a fraction of a second and uses all that an exact resume must restore."""

import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regard.config import BahdanauDecoderConfig, DataConfig, EncoderConfig, RecurrentConfig, TeacherForcingConfig
from regard.tasks.translation.config import TranslationConfig, TranslationTrainingConfig
from regard.training import fit

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with the data of all runs: 120 sentences of letters, and each backwards."""
    draw, place = random.Random(0), tmp_path_factory.mktemp("faults")
    lines = {" ".join(draw.choices("abcdefgh", k=draw.randint(2, 7))) for _ in range(120)}
    (place / "letters.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in sorted(lines)))
    return place


@pytest.fixture(scope="session")
def config(place):
    """The run; its folder is `place / "run"`."""
    recurrent = RecurrentConfig(
        embedding_size=6,
        encoder=EncoderConfig(hidden_size=6, output_dropout=0.2),
        decoder=BahdanauDecoderConfig(hidden_size=6, readout_dropout=0.2),
    )
    training = TranslationTrainingConfig(
        max_epochs=4,
        batch_tokens=100,
        accumulate=2,
        validation_pairs=4,
        teacher_forcing=TeacherForcingConfig(unit="token", start=1.0, end=0.5),
        ema_decay=0.9,
        average_last=2,
        validate_every=5,
        checkpoint_every=3,
        precision="float32",
        tensorboard=False,
    )
    data = DataConfig(train=(str(place / "letters.tsv"),), dev_size=12, cache=str(place / "cache"))
    return TranslationConfig(data=data, model=recurrent, training=training, out=str(place / "run"), threads=1)


@pytest.fixture(scope="session")
def whole(config, place):
    """The folder of the run that nothing disturbed. Its name is another, but its bytes are those of `config.out`."""
    fit(config, progress=False)
    Path(config.out).rename(place / "whole")
    return place / "whole"


@pytest.fixture
def fresh(config):
    """The run, with nothing in its folder, before and after."""
    shutil.rmtree(config.out, ignore_errors=True)
    yield config
    shutil.rmtree(config.out, ignore_errors=True)


@pytest.fixture
def ended(whole, tmp_path):
    """A copy of the undisturbed run's folder, to be damaged."""
    return shutil.copytree(whole, tmp_path / "ended")


@pytest.fixture
def elsewhere(config):
    """`elsewhere(folder)`: the run in another folder."""
    return lambda folder: replace(config, out=str(folder))
