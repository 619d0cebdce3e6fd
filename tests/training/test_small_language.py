"""A language model on a small text: `language-tiny` beats word frequencies after one epoch."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.presets import load_preset

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))


def tokens(corpus):
    batch = corpus.batch(np.arange(len(corpus)))
    return batch.target_out[batch.target_mask].numpy()


def unigram_loss(data):
    """Mean −log p of the dev tokens by their frequencies in training, plus one each, so that none is impossible."""
    counts = np.bincount(tokens(data.train), minlength=data.tokenizer.size) + 1.0
    return float(-np.log(counts / counts.sum())[tokens(data.dev)].mean())


@pytest.mark.real
def test_it_beats_word_frequencies_after_one_epoch_on_100_kilobytes(tmp_path):
    source = DATA / "multi30k" / "train.en"
    if not source.exists():
        pytest.skip(f"there is no {source}")
    path = tmp_path / "text.txt"
    path.write_bytes(source.read_bytes()[:100_000].rpartition(b"\n")[0] + b"\n")
    settings = {
        "data.train": [str(path)],
        "data.cache": str(tmp_path / "cache"),
        "out": str(tmp_path / "run"),
        "training.tensorboard": False,
        "training.precision": "float32",
        "threads": 1,
    }
    config = load_preset("language-tiny", settings)
    from regard.text.plain import prepare_texts

    expected = unigram_loss(prepare_texts(config.data, config.tokenizer, seed=config.seed, progress=False))
    regard.fit(load_preset("language-tiny", settings | {"training.max_epochs": 1}), progress=False)
    with open(tmp_path / "run" / "logs" / "metrics.csv", newline="") as file:
        [found] = [float(row["dev_nll"]) for row in csv.DictReader(file) if row["dev_nll"]]
    assert found < expected - 0.2
